package nodeapi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
)

// TestTable: each route says what it wants, and answers under its method and path.
func TestTable(t *testing.T) {
	s := newSite(t, nil)
	proofs := map[nodeapi.Proof]int{}
	for _, route := range nodeapi.New(s.config).Table() {
		proofs[route.Proof]++
		r := newRequest(t, route.Method, s.plain.URL+route.Path, nil)
		if a := s.do(http.DefaultClient, r); a.status == http.StatusMethodNotAllowed {
			t.Errorf("%s %s: got %d", route.Method, route.Path, a.status)
		}
		if (route.Node != nil) != (route.Proof == nodeapi.Identity) || route.BodyTime == 0 {
			t.Errorf("%s %s: %+v", route.Method, route.Path, route)
		}
	}
	want := map[nodeapi.Proof]int{
		nodeapi.NoProof: 8, nodeapi.Credential: 1, nodeapi.Certificate: 1, nodeapi.Identity: 12, nodeapi.FetchPart: 3, nodeapi.WholeToken: 1,
	}
	for proof, number := range want {
		if proofs[proof] != number {
			t.Errorf("proof %d: %d routes, want %d", proof, proofs[proof], number)
		}
	}
}

// TestMoreRoutes: a route of another part passes the same proof and the same guard, and gets its own limits.
func TestMoreRoutes(t *testing.T) {
	const path = "/internal/v1/nodes/{id}/echo"
	s := newSite(t, func(c *nodeapi.Config) {
		c.More = []nodeapi.Route{{
			Method: "POST", Path: path, Proof: nodeapi.Identity, Purpose: fleet.ForAnything, MaxBody: 8, BodyTime: time.Second,
			Node: func(_ context.Context, c nodeapi.Call) (any, error) {
				return map[string]string{"node": c.Identity.NodeID, "body": string(c.Body)}, nil
			},
		}}
	})
	n := s.enrol("box")
	other := s.enrol("other")
	at := "/internal/v1/nodes/" + n.id + "/echo"
	if a := s.plainly(n, at, []byte("hello")); a.status != 200 || string(a.body) != `{"body":"hello","node":"`+n.id+`"}`+"\n" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	s.want("too much", s.plainly(n, at, []byte("too much!")), 413, wire.CodeBodyTooLarge)
	s.want("another node", s.plainly(other, at, nil), 403, wire.CodeWrongNode)
	s.want("nobody", s.do(http.DefaultClient, newRequest(t, http.MethodPost, s.plain.URL+at, nil)), 401, wire.CodeNoIdentity)
	odd := func(r *http.Request) { r.Header.Set("X-Odd", "msb_abcd1234_efghijklmnopqrstuvwxyz") }
	s.want("a token in an odd header of a proven request", s.plainly(n, at, nil, odd), 200, "ok")
	r := newRequest(t, http.MethodPost, s.plain.URL+at, nil)
	odd(r)
	s.want("a token in an odd header of nobody", s.do(http.DefaultClient, r), 403, wire.CodeTokenWrongRoute)
}
