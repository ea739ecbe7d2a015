package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
)

// granted is what is wanted where the caller is let in, whatever the route then answers.
const granted = ""

// want is the code of the refusal that a call must get.
func (m *matrix) want(f face, r row, c caller) string {
	if code := exposed(f, r, c.shows); code != granted {
		return code
	}
	switch {
	case f.socket() && r.node != nil, (r.admin != nil || r.metrics != nil) && !f.admin:
		return wire.CodeNotFound
	case r.admin != nil:
		return m.wantAccount(f, r, r.admin.Need, c)
	case r.metrics != nil:
		return m.wantAccount(f, r, r.metrics.Need, c)
	case r.registry != nil:
		return wantRegistry(f, r, c)
	}
	return wantProof(f, r, c)
}

// exposed is the refusal of a secret that stands if none belongs, whoever sends it.
func exposed(f face, r row, s shown) string {
	judges := r.admin != nil && f.admin || (r.registry != nil || r.metrics != nil) && f.socket() // the route's own gate looks
	registers := r.node != nil && r.node.Proof == nodeapi.Credential
	switch {
	case s.kind == 0, f.socket() && (r.node != nil || s.where == asBearer || s.where == asBasic || s.where == asMAC || s.where == asKey):
		return granted
	case s.where == inQuery:
		return wire.CodePlaintextSecret
	case s.where == inPath:
		return exposedInPath(f, r, s, judges)
	case s.where == asKey, s.kind == 'a' && judges:
		return unlessPrivate(f)
	case judges, registers && s.where == asMAC:
		return granted
	case registers, s.kind == 'k':
		return wire.CodePlaintextSecret
	case s.kind == 'a':
		return unlessPrivate(f)
	}
	return wire.CodeTokenWrongRoute
}

// unlessPrivate refuses an API token that others may have read on its way.
func unlessPrivate(f face) string {
	if f.overheard() {
		return wire.CodeTLSRequired
	}
	return granted
}

func exposedInPath(f face, r row, s shown, judges bool) string {
	switch {
	case judges, s.kind == 'k':
		return wire.CodePlaintextSecret
	case !r.takesToken() || s.kind != 'b':
		return wire.CodeTokenWrongRoute
	case !f.private() && (s.whole() || r.node.Proof == nodeapi.WholeToken):
		return wire.CodeTLSRequired
	case !s.whole() && r.node.Proof == nodeapi.WholeToken:
		return wire.CodeForbidden
	}
	return granted
}

// wantAccount is the refusal that follows from what a route needs of an account.
func (m *matrix) wantAccount(f face, r row, need account.Need, c caller) string {
	switch {
	case f.socket():
		return granted
	case c.shows.where == asBearer && c.shows.kind == 'k':
		return wire.CodePlaintextSecret
	case c.shows.where == asBearer && c.shows.kind == 'b' && c.shows.whole():
		return wire.CodeTokenWrongRoute
	case c.account == nil || c.pass != nil || account.Status(*c.account, time.Now()) != api.StatusLive:
		return wire.CodeUnauthorized
	case lacks(c.account.Scopes, need, r):
		return wire.CodeForbidden
	case need.Reach == account.WholeFleet && c.account.Tenant != "":
		return wire.CodeForbidden
	case ownThing(r) && c.account.Tenant == theirs:
		return wire.CodeNotFound
	}
	return granted
}

// registryCodes are the registry's codes for refusals with these statuses.
var registryCodes = map[int]string{http.StatusBadRequest: "DENIED", http.StatusUnauthorized: "UNAUTHORIZED", http.StatusForbidden: "DENIED"}

// wantRegistry is the refusal that follows from what a route of the registry needs, and from what a pass opens.
func wantRegistry(f face, r row, c caller) string {
	logsIn := strings.HasSuffix(r.path, "/token")
	nobodys := c.pass != nil && c.account == nil
	scopes := []string{api.ScopeReleasesRead} // of nobody's pass
	if c.account != nil {
		scopes = c.account.Scopes
	}
	switch {
	case f.socket() && logsIn:
		return wire.CodeForbidden // nobody needs to
	case f.socket():
		return granted
	case c.shows.where != asBearer && c.shows.where != asBasic:
		return wire.CodeUnauthorized
	case (!f.admin || f.overheard()) && !nobodys:
		return wire.CodeForbidden
	case c.account == nil && !nobodys, c.account != nil && account.Status(*c.account, time.Now()) != api.StatusLive:
		return wire.CodeUnauthorized
	case lacks(scopes, r.registry.Need, r), r.registry.Need.Reach == account.WholeFleet && c.account.Tenant != "":
		return wire.CodeForbidden
	case c.pass != nil && r.registry.Action != "" && !opens(c.pass, r.registry.Action):
		return wire.CodeUnauthorized
	}
	return granted
}

// opens tells whether a pass opens an action in the repository that the matrix asks for.
func opens(p *account.Pass, action string) bool {
	return slices.ContainsFunc(p.Grants, func(g account.Grant) bool {
		return g.Repository == wire.AgentRepository && slices.Contains(g.Actions, action)
	})
}

// lacks tells whether one of the scopes is missing. If a part of it is enough, it is one that partsFor names.
func lacks(scopes []string, need account.Need, r row) bool {
	has := func(s string) bool { return slices.Contains(scopes, s) }
	return slices.ContainsFunc(need.Scopes, func(s string) bool {
		part := need.Parts && slices.ContainsFunc(partsFor(r, s), func(p string) bool { return has(api.ScopePart(s, p)) })
		implied := s == api.ScopeReleasesRead && has(api.ScopeReleasesWrite)
		return !part && !implied && !has(s) && !has(api.ScopeAll)
	})
}

// partsFor are the parts of a scope that open what the matrix asks of a route: that for its tasks, and that for the session which it opens.
// Lists of sessions, and sessions that do not exist, are open to every part.
func partsFor(r row, scope string) []string {
	switch {
	case scope != api.ScopeSessions:
		return []string{taskOfMatrix}
	case r.method == http.MethodPost && !r.absent():
		return []string{wire.OpenerExec}
	}
	return wire.SessionOpeners()
}

// ownThing tells whether the route is about something that belongs to a tenant. Here that is always the first tenant. What a PUT names
// is made by it, in the tenant of the caller. A release, a profile and a SKU are of no tenant.
func ownThing(r row) bool {
	nobodys := slices.Contains([]string{"release", "profile", "sku"}, r.parameter())
	names := r.parameter() != "" && !nobodys && r.method != http.MethodPut ||
		strings.Contains(samples[r.pattern()].body, "{node}")
	return r.admin != nil && r.admin.Need.Reach == account.OwnTenant && names
}

// wantProof is the refusal that follows from the proof that a node's route wants.
func wantProof(f face, r row, c caller) string {
	switch r.node.Proof {
	case nodeapi.NoProof:
		return granted
	case nodeapi.Credential:
		if c.enrols == nil {
			return wire.CodeBadAuthorization
		}
		return c.enrols.code
	case nodeapi.FetchPart, nodeapi.WholeToken:
		if c.shows.where == inPath {
			return granted
		}
		return wire.CodeTokenWrongRoute // of the enrollment token that the matrix puts there
	}
	switch {
	case c.node == "":
		return wire.CodeNoIdentity
	case r.node.Proof == nodeapi.Certificate && c.other:
		return wire.CodeIdentityMismatch
	case r.node.Proof == nodeapi.Certificate, c.node == nodeUnknown: // it is proven, and only after a restore one is taken over
		return wire.CodeUnknownCertificate
	case c.other && r.parameter() == "id":
		return wire.CodeWrongNode
	}
	return wantNode(c.node, r.node.Purpose)
}

// wantNode is the refusal of a node in this state.
func wantNode(state string, purpose fleet.Purpose) string {
	switch {
	case state == nodeConflicted && purpose == fleet.ForHeartbeat, state == nodeExpired && purpose == fleet.ForRenewal:
		return granted
	}
	return map[string]string{
		nodeActive: granted, nodeBanned: wire.CodeBanned, nodeRetired: wire.CodeRetired, nodeExpired: wire.CodeExpired,
		nodeSuperseded: wire.CodeSupersededRetry, nodeReenrolled: wire.CodeSuperseded, nodeConflicted: wire.CodeIdentityConflict,
	}[state]
}

// handling names, for each place where a mux is given a handler, the file. Files of tests do not count.
func handling(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		testing := strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/kit")
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || testing {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"net/http"` }) {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "Handle" || method.Sel.Name == "HandleFunc") {
				files = append(files, path)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
