package oci

import (
	"net/http"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/artifact"
)

// Route is one row of the table. The row decides who may call it.
type Route struct {
	Method string // GET takes HEAD as well
	Path   string // below wire.PathRegistry; {name} is a repository, which may hold slashes
	Action string // that a pass must open in the repository; empty: every pass is good
	Need   account.Need
	Body   int64 // bytes that it reads of a body; wholeBlob: as many as a blob may have

	serve func(*call) error
}

// wholeBlob is the bound of a body whose size package artifact bounds.
const wholeBlob = -1

// loginPath is where clients log in, below wire.PathRegistry.
const loginPath = "token"

// Table returns every route of this API. A new route is a new row here. The authorisation matrix in package main then calls it as every
// kind of caller.
//
// A repository belongs to no tenant. An account of one tenant may pull, and what changes a repository concerns the whole fleet.
func Table() []Route {
	anyone := account.Need{Reach: account.OwnTenant} // who has logged in
	read := account.Need{Scopes: []string{api.ScopeReleasesRead}, Reach: account.OwnTenant}
	change := account.Need{Scopes: []string{api.ScopeReleasesWrite}, Reach: account.WholeFleet}
	const pull, push, remove = account.ActionPull, account.ActionPush, account.ActionDelete
	return []Route{
		{"GET", "", "", anyone, 0, (*call).base},
		{"GET", loginPath, "", anyone, 0, (*call).token},
		{"GET", "_catalog", "", read, 0, (*call).catalog},
		{"GET", "{name}/blobs/{digest}", pull, read, 0, (*call).getBlob},
		{"DELETE", "{name}/blobs/{digest}", remove, change, 0, (*call).deleteBlob},
		{"POST", "{name}/blobs/uploads/", push, change, wholeBlob, (*call).begin},
		{"GET", "{name}/blobs/uploads/{upload}", push, change, 0, (*call).progress},
		{"PATCH", "{name}/blobs/uploads/{upload}", push, change, wholeBlob, (*call).add},
		{"PUT", "{name}/blobs/uploads/{upload}", push, change, wholeBlob, (*call).finish},
		{"DELETE", "{name}/blobs/uploads/{upload}", push, change, 0, (*call).cancel},
		{"GET", "{name}/manifests/{reference}", pull, read, 0, (*call).getManifest},
		{"PUT", "{name}/manifests/{reference}", push, change, artifact.MaxManifest, (*call).putManifest},
		{"DELETE", "{name}/manifests/{reference}", remove, change, 0, (*call).deleteManifest},
		{"GET", "{name}/referrers/{digest}", pull, read, 0, (*call).referrers},
		{"GET", "{name}/tags/list", pull, read, 0, (*call).tags},
	}
}

// Pattern returns the route's method and whole path.
func (r Route) Pattern() string { return r.Method + " " + wire.PathRegistry + r.Path }

func (r *Route) methods() []string {
	if r.Method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{r.Method}
}

func (r *Route) takes(method string) bool {
	return method == r.Method || method == http.MethodHead && r.Method == http.MethodGet
}

// match tells whether a path is one of this route, and what it names. The name of a repository is what stands before the route's own
// words, so it is found from the end.
func (r *Route) match(path string) (at place, ok bool) {
	rest, named := strings.CutPrefix(r.Path, "{name}/")
	if !named {
		return at, path == r.Path
	}
	words := strings.Split(rest, "/")
	parts := strings.Split(path, "/")
	before := len(parts) - len(words)
	if before < 1 {
		return at, false
	}
	at.name = strings.Join(parts[:before], "/")
	for i, word := range words {
		part := parts[before+i]
		switch {
		case strings.HasPrefix(word, "{") && part != "":
			at.what = part
		case word != part:
			return at, false
		}
	}
	return at, at.name != ""
}
