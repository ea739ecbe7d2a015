package console

import (
	"net/http"
	"net/url"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/store"
)

// home leads to the first place that the account may look at.
func (v *visit) home() (page, error) { return page{to: v.navigation(v.may)[0].Path}, nil }

type loginPage struct{ Next string }

func (v *visit) showLogin() (page, error) {
	next := safePath(v.Asked("next"))
	if next == "" && v.Asked("next") != "" {
		v.Ignore("next", "there is no such page in the console")
	}
	return page{name: "login", title: "Log in", data: loginPage{next}}, nil
}

// logIn begins a session, by a code or by an API token. Refusals are counted and recorded as those of the API are.
func (v *visit) logIn() (page, error) {
	if asks, ok := v.sameAccount(); !ok {
		return asks, nil
	}
	cookie, who, err := v.proven()
	if err != nil {
		var wait time.Duration
		if wait, err = v.Gate.Refused(v.withToken(), who, loginNeed(), err); wait > 0 {
			v.w.Header().Set("Retry-After", account.RetryAfter(wait))
		}
		return v.stay((*visit).showLogin, "login", err)
	}
	if v.loggedIn() { // the browser forgets the cookie of that session, so nobody could end it any more but by the list
		if err := v.Logins.End(v.r.Context(), v.session.Account, v.session.ID, v.address()); err != nil {
			v.Logger.Warn("the session before a login did not end", "account", v.session.Account.Name, "error", err)
		}
	}
	v.keep(cookieName, cookie, login.OuterLimit)
	v.keep(lastName, url.QueryEscape(who.Account.Name), lastLife)
	to := safePath(v.field("next"))
	if to == "" {
		to = "/"
	}
	return page{to: to}, nil
}

// sameAccount asks where a code is of another account than this browser was logged in as last. The link that carries it may be somebody
// else's, and would change the account unseen.
func (v *visit) sameAccount() (page, bool) {
	last := v.session.Account.Name
	if kept, err := v.r.Cookie(lastName); err == nil && !v.loggedIn() {
		last, _ = url.QueryUnescape(kept.Value)
	}
	of, err := v.Logins.Account(v.r.Context(), v.field("code"))
	if err != nil || last == "" || of.Name == last { // what is wrong with the code is said when it is used
		return page{}, true
	}
	return v.sure(question{Title: "Log in as " + of.Name + "?", Button: "Log in as " + of.Name, Back: api.PathLogin, Says: []string{
		"This browser was logged in as " + last + ", and the code is one of the account " + of.Name + ".",
		"What you do here from then on is done as " + of.Name + ". Go on only if you asked for this code."}}, "")
}

// proven is the cookie of a new session. With an error, the caller is filled in as far as it is known.
func (v *visit) proven() (cookie string, who account.Caller, err error) {
	ctx := v.r.Context()
	from := login.Visitor{Address: v.Address(v.r), Browser: v.r.UserAgent()}
	if code := v.field("code"); code != "" {
		who.Actor = store.Actor{Name: "unknown", Address: from.Address}
		var of store.Account
		if cookie, of, err = v.Logins.Redeem(ctx, code, from); err == nil {
			who.Account = of
		}
		return cookie, who, err
	}
	if who, err = v.Gate.Admit(v.withToken(), loginNeed()); err != nil {
		return "", who, err
	}
	cookie, err = v.Logins.Begin(ctx, who.Account, from)
	return cookie, who, err
}

// loginNeed lets every account in: each page asks for itself.
func loginNeed() account.Need { return account.Need{Reach: account.OwnTenant} }

// withToken is the request with the API token of the form where the API has it, for the gate.
func (v *visit) withToken() *http.Request {
	r := v.r.Clone(v.r.Context())
	r.Header = v.r.Header.Clone() // a proxy says there where the browser is
	r.Header.Set("Authorization", "Bearer "+v.field("token"))
	return r
}

// keep has the browser keep a cookie; with a life of 0 or less it forgets it.
func (v *visit) keep(name, cookie string, life time.Duration) {
	seconds := int(life / time.Second)
	if seconds <= 0 {
		seconds = -1
	}
	http.SetCookie(v.w, &http.Cookie{Name: name, Value: cookie, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
}

func (v *visit) logOut() (page, error) {
	if err := v.Logins.End(v.r.Context(), v.session.Account, v.session.ID, v.address()); err != nil {
		return page{}, err
	}
	v.keep(cookieName, "", 0)
	return page{to: api.PathLogin}, nil
}

type accountPage struct {
	Account  account.Caller
	Session  login.Session
	Sessions []login.Session
}

func (v *visit) showAccount() (page, error) {
	sessions, err := v.Logins.Sessions(v.r.Context(), v.session.Account)
	return page{name: "account", title: v.session.Account.Name, data: accountPage{v.may, v.session, sessions}}, err
}

func (v *visit) endSession() (page, error) {
	id := v.r.PathValue("session")
	if id == v.session.ID {
		return v.logOut()
	}
	return page{to: api.PathConsole + "account"}, v.Logins.End(v.r.Context(), v.session.Account, id, v.address())
}
