package bootstrap_test

import (
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

// TestFetchedOften: somebody with the fetch part alone cannot fill the log. For each address there is one event a minute, and a count.
func TestFetchedOften(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(address string) {
		t.Helper()
		v, err := d.Visited(t.Context(), m.Token, false)
		if err == nil {
			err = d.Fetched(t.Context(), v, node, address)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 400 {
		fetch("192.0.2.9")
	}
	fetch("192.0.2.10")
	if e := d.events("bootstrap.fetched"); len(e) != 2 {
		t.Errorf("%d events", len(e))
	}
	d.now = d.now.Add(2 * time.Minute)
	fetch("192.0.2.9")
	fetch("192.0.2.9") // this one finds that the count is due
	e := d.events("bootstrap.fetched")
	if len(e) != 4 || e[0].Detail["more"] != "399" || e[0].Address != "192.0.2.9" || e[0].NodeName != "gpu-7" ||
		e[0].Detail["part"] != "fetch" {
		t.Errorf("%d events: %+v", len(e), e)
	}
}

// TestLentOften: somebody with the whole token cannot fill the log either.
func TestLentOften(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Visited(t.Context(), m.Token, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"192.0.2.9", "192.0.2.9", "192.0.2.10", "192.0.2.9"} {
		if _, _, err := d.Lend(t.Context(), v, node, address); err != nil {
			t.Fatal(err)
		}
	}
	if e := d.events("bootstrap.credential"); len(e) != 2 {
		t.Errorf("%d events", len(e))
	}
	d.audit.Settle(t.Context(), true)
	if e := d.events("bootstrap.credential"); len(e) != 3 || e[0].Detail["more"] != "2" || e[0].Address != "192.0.2.9" ||
		e[0].NodeName != "gpu-7" || e[0].Outcome != "none" {
		t.Errorf("events: %+v", e)
	}
}

// TestWrongProofs: each credential that is tried with a wrong secret is an event, and the others are counted.
func TestWrongProofs(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	free, _, err := d.MintToken(t.Context(), api.TokenRequest{Tenant: "research"}, operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{m.Token.Public(), free.Public()} {
		token, err := d.Credential(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := d.Proven(t.Context(), sign.Presented{CredentialID: id}, token, []byte("{}"), "192.0.2.9"); code(err) != wire.CodeBadMAC {
				t.Fatal(err)
			}
		}
	}
	d.audit.Settle(t.Context(), true)
	seen := map[string]store.Event{}
	for _, e := range d.events("enrol.refused") {
		seen[e.Detail["credential"]+e.Detail["more"]] = e
	}
	for id, tenant := range map[string]string{m.Token.Public(): "platform", free.Public(): "research"} {
		first := seen[id]
		more := seen[id+"4"]
		if first.Tenant != tenant || more.Tenant != tenant || more.Outcome != wire.CodeBadMAC {
			t.Errorf("%s: %+v and %+v", id, first, more)
		}
	}
	if e := seen[m.Token.Public()]; e.NodeID != node.ID || e.NodeName != "gpu-7" {
		t.Errorf("whose it is: %+v", e)
	}
}
