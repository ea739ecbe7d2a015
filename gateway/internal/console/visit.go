package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console/form"
	"muster/gateway/internal/console/picture"
)

const (
	// cookieName begins with __Host-, so that browsers keep the cookie for this very host, over TLS alone.
	cookieName = "__Host-muster"
	lastName   = "__Host-muster-last" // of the cookie with the account that the browser was logged in as last
	formField  = "form"               // of each form: the text that only our own pages know
	sureField  = "sure"               // of a form that was confirmed
	wordField  = "word"               // that a person has typed in a form that asks for it
	formDomain = "muster console form v1\n"
	lastLife   = 365 * 24 * time.Hour
)

// visit is one request.
type visit struct {
	*Console
	w   http.ResponseWriter
	r   *http.Request
	now time.Time
	*picture.Query

	cookie  string         // empty: nobody is logged in
	session login.Session  // of the cookie
	may     account.Caller // what the account may do, to leave out what it may not
	api     *client.Client // acts as the account
}

func (v *visit) loggedIn() bool { return v.cookie != "" }

// address is the browser's, as events show it: what was done by the console can be told from what was done by the API.
func (v *visit) address() string { return v.Address(v.r) + " (console)" }

// enter finds out who visits. Nobody is no error.
func (v *visit) enter() error {
	cookie, err := v.r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	v.session, err = v.Logins.Session(v.r.Context(), cookie.Value)
	if errors.Is(err, login.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	v.cookie = cookie.Value
	v.may = account.Of(v.session.Account)
	v.connect()
	return nil
}

// formText is in each form of a session. Only who has the cookie can make it.
func (v *visit) formText() string {
	sum := hmac.New(sha256.New, []byte(v.cookie))
	sum.Write([]byte(formDomain))
	return hex.EncodeToString(sum.Sum(nil))
}

// readForm reads a form, and refuses one that does not come from our own pages.
func (v *visit) readForm(route Route) error {
	if err := v.r.ParseForm(); err != nil {
		return wire.Refuse(wire.CodeBadRequest, "the form cannot be read", "go back, and send it again")
	}
	if route.Open {
		return nil
	}
	if !hmac.Equal([]byte(v.r.PostForm.Get(formField)), []byte(v.formText())) {
		return wire.Refuse(wire.CodeForbidden, "this form is of an earlier session", "open the page again, and send the form from there")
	}
	return nil
}

// field is what a form says, without blanks around it.
func (v *visit) field(name string) string { return strings.TrimSpace(v.r.PostForm.Get(name)) }

// number is what a field says; 0: it is empty.
func (v *visit) number(name string) (int, error) { return form.Number(name, v.field(name)) }

// duration is what a field says; 0: it is empty.
func (v *visit) duration(name string) (api.Duration, error) {
	return form.Duration(name, v.field(name))
}

// loginFor is the login page that leads back to where somebody wanted to go.
func loginFor(r *http.Request) string {
	to := r.URL.RequestURI()
	if to == "/" || safePath(to) == "" {
		return api.PathLogin
	}
	return api.PathLogin + "?" + url.Values{"next": {to}}.Encode()
}

// safePath is a path of the console with its query, or empty for any other text.
func safePath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, api.PathConsole) ||
		path.Clean(u.Path)+"/" != u.Path && path.Clean(u.Path) != u.Path || strings.ContainsAny(to, "\\\r\n") {
		return ""
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// get asks the API something, as the visitor.
func get[T any](v *visit, path string, query any) (T, error) {
	return client.Get[T](v.r.Context(), v.api, path, query)
}

// send has the API change something, as the visitor.
func send[T any](v *visit, method, path string, body any) (T, error) {
	return client.Send[T](v.r.Context(), v.api, method, path, body)
}

// do is send if nobody reads the answer.
func (v *visit) do(method, path string, body any) error {
	_, err := send[struct{}](v, method, path, body)
	return err
}
