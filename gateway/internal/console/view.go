package console

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/reply"
)

// page is what a handler wants to be shown.
type page struct {
	name    string // of its template, without .html
	title   string
	section string // of the navigation that it belongs to
	status  int    // 0: 200
	data    any
	failure *failure
	ignored []picture.Ignored // of the URL
	to      string            // where to send the browser instead
	sent    bool              // the handler has answered by itself
}

// failure is a refusal, at the place where it happened.
type failure struct {
	At      string // the form; empty: the page as a whole
	Message string
	Hint    string
	Topic   string // of muster help; empty: none
}

// view is what a template gets.
type view struct {
	Title    string
	Section  string
	Nav      []link
	Actor    string // empty: nobody is logged in
	Tenant   string
	Form     string // hidden in each form
	Given    url.Values
	Failure  *failure
	Ignored  []picture.Ignored
	Gateway  api.Gateway
	May      map[string]bool // by scope, for what is left out
	Data     any
	LoginURL string
}

// link is one place of the navigation.
type link struct{ Section, Path, Name, Keys string }

// navigation are the places that an account may look at. Keys are pressed one after the other.
func (c *Console) navigation(who account.Caller) []link {
	all := []struct {
		link
		scope string
	}{
		{link{"fleet", api.PathConsole + "fleet", "Fleet", "g f"}, api.ScopeNodesRead},
		{link{"alerts", api.PathConsole + "alerts", "Alerts", "g w"}, api.ScopeAlertsRead},
		{link{"allocations", api.PathConsole + "allocations", "Allocations", "g l"}, api.ScopePlacementRead},
		{link{"providers", api.PathConsole + "providers", "Providers", "g p"}, api.ScopeProvidersRead},
		{link{ofMAAS, maasPath, "MAAS", "g m"}, api.ScopeNodesRead},
		{link{"tasks", api.PathConsole + "tasks", "Tasks", "g t"}, api.ScopeTasksRead},
		{link{"sessions", api.PathConsole + "sessions", "Sessions", "g s"}, api.ScopeSessions},
		{link{"releases", api.PathConsole + "releases", "Releases", "g r"}, api.ScopeReleasesRead},
		{link{"tokens", api.PathConsole + "tokens", "Tokens", "g k"}, api.ScopeTokensRead},
		{link{"accounts", api.PathConsole + "accounts", "Accounts", "g a"}, api.ScopeAccountsWrite},
		{link{"events", api.PathConsole + "events", "Audit", "g e"}, api.ScopeEventsRead},
		{link{"help", api.PathConsole + "help", "Help", "g h"}, ""},
	}
	var links []link
	for _, l := range all {
		if l.Section == ofMAAS && (!c.MAAS || who.Tenant != "") {
			continue
		}
		if l.scope == "" || who.MayPart(l.scope) {
			links = append(links, l.link)
		}
	}
	return links
}

func (c *Console) parse() map[string]*template.Template {
	names, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		panic("web: " + err.Error())
	}
	pages := map[string]*template.Template{}
	for _, name := range names {
		base := strings.TrimSuffix(path.Base(name), ".html")
		if base != "layout" && base != "parts" {
			t := template.New("layout.html").Funcs(c.funcs())
			pages[base] = template.Must(t.ParseFS(files, "pages/layout.html", "pages/parts.html", name))
		}
	}
	return pages
}

// send writes a page. It is made whole before anything is sent.
func (v *visit) send(p page) {
	switch {
	case p.sent:
		return
	case p.to != "":
		http.Redirect(v.w, v.r, p.to, http.StatusSeeOther)
		return
	}
	t := v.pages[p.name]
	var body bytes.Buffer
	if t == nil {
		v.broken(fmt.Errorf("there is no page %q", p.name))
		return
	}
	if err := t.Execute(&body, v.view(p)); err != nil {
		v.broken(err)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	if p.status != 0 {
		v.w.WriteHeader(p.status)
	}
	_, _ = v.w.Write(body.Bytes()) // the connection is gone: nobody is left to tell
}

// broken answers where a page could not be made.
func (v *visit) broken(err error) {
	v.Info.WriteError(v.w, fmt.Errorf("a page of the console: %w", err))
}

func (v *visit) view(p page) view {
	shown := view{Title: p.title, Section: p.section, Given: v.r.Form, Failure: p.failure, Ignored: p.ignored, Gateway: v.Gateway,
		Data:     p.data,
		LoginURL: loginFor(v.r), May: map[string]bool{}}
	if shown.Given == nil {
		shown.Given = v.r.URL.Query()
	}
	if v.loggedIn() {
		shown.Actor = v.session.Account.Name
		shown.Tenant = v.session.Account.Tenant
		shown.Nav = v.navigation(v.may)
		shown.Form = v.formText()
		for _, scope := range api.KnownScopes() {
			shown.May[scope] = v.may.May(scope)
		}
	}
	return shown
}

// refused is the page for a refusal that belongs to no form. For a script it is the API's own answer.
func (v *visit) refused(err error) page {
	if strings.HasPrefix(v.r.URL.Path, dataPath) {
		v.Info.WriteError(v.w, err)
		return page{sent: true}
	}
	return v.fails(page{name: "refused", title: "Refused"}, "", err)
}

// on makes a handler of a form. What it is refused is said beside the form, on the page that has it.
func on(show func(*visit) (page, error), at string, handler func(*visit) (page, error)) func(*visit) (page, error) {
	return func(v *visit) (page, error) {
		p, err := handler(v)
		if err != nil {
			return v.stay(show, at, err)
		}
		return p, nil
	}
}

// stay shows the page of a form again, with the refusal beside the form.
func (v *visit) stay(show func(*visit) (page, error), at string, err error) (page, error) {
	again, broken := show(v)
	if broken != nil {
		return again, err // the form's own refusal says more
	}
	return v.fails(again, at, err), nil
}

// fails is a page with a refusal at one of its forms.
func (v *visit) fails(p page, at string, err error) page {
	p.status, p.failure = v.failure(at, err)
	return p
}

// once is a page with something that is seen this once, such as a token: with its lists, or where they cannot be read, without.
func once[T any](v *visit, show func(*visit) (page, error), add func(*T)) page {
	shown, err := show(v)
	data, whole := shown.data.(T)
	if err != nil || !whole {
		data = *new(T)
	}
	add(&data)
	shown.data = data
	return shown
}

func (v *visit) failure(at string, err error) (status int, f *failure) {
	status, answer := v.Info.Answer(err)
	f = &failure{At: at, Message: answer.Error.Message, Hint: answer.Error.Hint, Topic: topicIn(answer.Error.Hint)}
	if answer.RequestID != "" && !strings.Contains(err.Error(), answer.RequestID) {
		f.Message += ", request id " + answer.RequestID
	}
	return status, f
}

// topicIn is the topic of muster help that a hint names.
func topicIn(hint string) string {
	_, rest, _ := strings.Cut(hint, "muster help ")
	name := strings.FieldsFunc(rest+" ", func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
	if len(name) > 0 && slices.Contains(help.Names(), name[0]) {
		return name[0]
	}
	return ""
}

// forbidden tells whether the API refused because the account may not do it.
func forbidden(err error) bool {
	var detail *wire.ErrorDetail
	return errors.As(err, &detail) && reply.Status(detail.Code) == http.StatusForbidden
}

// refusedBy tells whether the API refused with this code.
func refusedBy(err error, code string) bool {
	var detail *wire.ErrorDetail
	return errors.As(err, &detail) && detail.Code == code
}

// question is asked before something is done that hurts.
type question struct {
	Title  string
	Says   []string // what happens, in sentences
	Button string
	Danger bool
	Word   string // that a person types first; empty: none
	Wrong  bool   // it was not typed
	Action string // where the answer goes
	Back   string
	Fields []pair // of the form that asked
}

type pair struct{ Name, Value string }

// sure tells whether the form was confirmed. If not, the page asks.
func (v *visit) sure(q question, section string) (page, bool) {
	confirmed := v.r.PostForm.Get(sureField) != ""
	if confirmed && (q.Word == "" || v.field(wordField) == q.Word) {
		return page{}, true
	}
	q.Wrong = confirmed
	q.Action = v.r.URL.Path
	for _, name := range slices.Sorted(maps.Keys(v.r.PostForm)) {
		for _, value := range v.r.PostForm[name] {
			if name != formField && name != sureField && name != wordField {
				q.Fields = append(q.Fields, pair{name, value})
			}
		}
	}
	return page{name: "sure", title: q.Title, section: section, data: q}, false
}
