package bootstrap_test

import (
	"testing"

	"muster/gateway/internal/bootstrap"
	"muster/store"
)

func TestParseRegistryCredential(t *testing.T) {
	for text, want := range map[string]string{"robot:pass:word\n": "ok", "robot": "no", ":x": "no", "robot:": "no", "a:b\nc": "no", "": "no"} {
		c, err := bootstrap.ParseRegistryCredential("r", []byte(text))
		if (err == nil) != (want == "ok") || err == nil && (c.Username != "robot" || c.Password != "pass:word") {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
}

// TestLend: a credential goes to machines whose script logs in to the registry that it is for, as long as that is the gateway's.
func TestLend(t *testing.T) {
	s := site()
	d, node := bootstraps(t, "", s)
	at := func(registry string) *bootstrap.Bootstrap {
		s := site()
		s.Registry = registry
		return bootstrap.New(bootstrap.Config{Store: d.store, Site: func() (bootstrap.Site, error) { return s, nil }})
	}
	minted := func(registry string) bootstrap.Visit {
		m, err := at(registry).MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.Visited(t.Context(), m.Token, true)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	old := minted("registry.example:5000")
	later := minted("another.example")
	none := minted("")
	seal := func(registry string) {
		t.Helper()
		for range 2 { // the second time it is there already
			if err := d.SetRegistryCredential(t.Context(),
				bootstrap.RegistryCredential{Registry: registry, Username: "robot", Password: "for " + registry}, operator); err != nil {
				t.Fatal(err)
			}
		}
	}
	lend := func(now string, v bootstrap.Visit, password, reason string) {
		t.Helper()
		c, ok, err := at(now).Lend(t.Context(), v, node, "192.0.2.9")
		if err != nil || ok != (password != "") || c.Password != password {
			t.Errorf("now %s: got %+v, %v, %v", now, c, ok, err)
		}
		if e := d.events("bootstrap.credential")[0]; e.Detail["reason"] != reason || (e.Outcome == "ok") != ok ||
			e.Detail["registry"] != v.Registry || e.NodeName != "gpu-7" {
			t.Errorf("now %s: event %+v, want the reason %q", now, e, reason)
		}
	}
	lend("registry.example:5000", old, "", "no credential is sealed")
	seal("registry.example:5000")
	lend("registry.example:5000", old, "for registry.example:5000", "")
	lend("registry.example:5000", none, "", "the script logs in to no registry")
	lend("another.example", old, "", "the gateway's registry is another now")
	lend("", old, "", "the gateway's registry is another now")
	lend("another.example", later, "", "the sealed credential is another registry's")
	seal("another.example")
	lend("another.example", old, "", "the gateway's registry is another now")
	lend("registry.example:5000", old, "", "the sealed credential is another registry's")
	lend("another.example", later, "for another.example", "")
	if e := d.events("bootstrap.registry_set"); len(e) != 2 || e[0].Detail["username"] != "robot" || e[0].Detail["password"] != "" {
		t.Errorf("events: %+v", e)
	}
	if got, err := d.SealedRegistry(t.Context()); err != nil || got != "another.example" {
		t.Errorf("got %v, %v", got, err)
	}
	for range 2 {
		if err := d.DropRegistryCredential(t.Context(), operator); err != nil {
			t.Fatal(err)
		}
	}
	lend("another.example", later, "", "no credential is sealed")
	if e := d.events("bootstrap.registry_removed"); len(e) != 1 || e[0].Actor != operator.Name {
		t.Errorf("events: %+v", e)
	}
	if err := d.store.SetSecret(t.Context(), "bootstrap/registry", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := at("another.example").Lend(t.Context(), later, store.Node{}, ""); err == nil {
		t.Error("nonsense was lent")
	}
}
