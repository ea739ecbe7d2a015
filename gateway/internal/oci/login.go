package oci

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/reply"
)

const (
	passLife   = 5 * time.Minute
	mostGrants = 16 // repositories in one pass; it has to fit into a header

	insufficient = "insufficient_scope"
)

// base tells a client that this is a registry, and that it has logged in.
func (c *call) base() error {
	reply.Write(c.w, http.StatusOK, reply.JSON(struct{}{}))
	return nil
}

// challenge tells a client where to log in, and what for. At that place itself it has to be Basic.
func (s *server) challenge(w http.ResponseWriter, route *Route, at place, fault string) {
	if route.Path == loginPath {
		w.Header().Set("WWW-Authenticate", `Basic realm="muster", charset="UTF-8"`)
		return
	}
	text := `Bearer realm="` + s.URL + wire.PathRegistry + loginPath + `",service="` + service(s.URL) + `"`
	switch {
	case at.name != "":
		text += `,scope="repository:` + at.name + ":" + strings.Join(wanted(route.Action), ",") + `"`
	case route.Path == "_catalog":
		text += `,scope="registry:catalog:*"`
	}
	if fault != "" {
		text += `,error="` + fault + `"`
	}
	w.Header().Set("WWW-Authenticate", text)
}

// service is the registry's name for its clients: they keep passes under it.
func service(base string) string {
	parsed, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// wanted are the actions that a client should ask for. Who pushes also looks at what is there.
func wanted(action string) []string {
	if action == account.ActionPull {
		return []string{action}
	}
	return []string{account.ActionPull, action}
}

// login is the answer to a login, with the pass under both names that clients look for.
type login struct {
	Token       string    `json:"token"`
	AccessToken string    `json:"access_token"`
	ExpiresIn   int64     `json:"expires_in"`
	IssuedAt    time.Time `json:"issued_at"`
}

// token gives a pass for what the client names and its account may do. Who shows a pass gets the same again: it must not live longer.
func (c *call) token() error {
	pass := c.caller.Pass
	if pass == nil && c.caller.Account.ID == "" {
		return &artifact.Error{Code: artifact.CodeDenied, Message: "on the socket nobody needs to log in"}
	}
	now := c.server.Now().UTC()
	if pass == nil {
		made := c.server.Gate.Passes.Issue(c.caller.Account.ID, c.grants(), passLife)
		pass = &made
	}
	reply.Write(c.w, http.StatusOK, reply.JSON(login{
		Token: pass.Text, AccessToken: pass.Text, ExpiresIn: pass.Expires - now.Unix(), IssuedAt: now.Truncate(time.Second),
	}))
	return nil
}

// grants are what the caller asks for, as far as it may do that. A scope has the form repository:NAME:ACTION,ACTION; others open nothing
// here.
func (c *call) grants() []account.Grant {
	var grants []account.Grant
	for _, scopes := range c.query["scope"] {
		for scope := range strings.FieldsSeq(scopes) {
			rest, repository := strings.CutPrefix(scope, "repository:")
			at := strings.LastIndexByte(rest, ':')
			if !repository || at < 0 || len(grants) == mostGrants || artifact.CheckName(rest[:at]) != nil {
				continue
			}
			if actions := c.may(strings.Split(rest[at+1:], ",")); len(actions) > 0 {
				grants = append(grants, account.Grant{Repository: rest[:at], Actions: actions})
			}
		}
	}
	return grants
}

// may are those of some actions that the caller may do. The star stands for all.
func (c *call) may(asked []string) []string {
	var actions []string
	for _, action := range [...]string{account.ActionPull, account.ActionPush, account.ActionDelete} {
		may := c.caller.Tenant == "" && c.caller.May(api.ScopeReleasesWrite)
		if action == account.ActionPull {
			may = c.caller.May(api.ScopeReleasesRead)
		}
		if may && (slices.Contains(asked, action) || slices.Contains(asked, "*")) {
			actions = append(actions, action)
		}
	}
	return actions
}

// page reads how much of a list a client wants. n is -1 where it wants all.
func (c *call) page() (n int, last string, err error) {
	last = c.query.Get("last")
	if !c.query.Has("n") {
		return -1, last, nil
	}
	n, err = strconv.Atoi(c.query.Get("n"))
	if err != nil || n < 0 {
		return 0, "", &artifact.Error{Code: codePage, Message: "n is how many entries are wanted: 0 or more"}
	}
	return n, last, nil
}

// next names the rest of a list.
func (c *call) next(n int, last string) {
	rest := url.Values{"n": {strconv.Itoa(n)}, "last": {last}}
	c.w.Header().Set("Link", "<"+(&url.URL{Path: c.r.URL.Path, RawQuery: rest.Encode()}).String()+`>; rel="next"`)
}
