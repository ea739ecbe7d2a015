package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettings: what cannot work is refused with what to write instead.
func TestSettings(t *testing.T) {
	good := Settings{Store: "rqlite://127.0.0.1:4001", PeerListen: ":7444"}
	for name, c := range map[string]struct {
		change func(s *Settings)
		want   string
	}{
		"none":                 {func(s *Settings) { *s = Settings{} }, ""},
		"good":                 {func(*Settings) {}, ""},
		"three":                {func(s *Settings) { s.Store = "rqlite://127.0.0.1:1,localhost:2,[::1]:3/" }, ""},
		"a CA without a store": {func(s *Settings) { s.Store = ""; s.StoreCA = "x" }, "--store-ca needs a --store"},
		"another scheme":       {func(s *Settings) { s.Store = "postgres://127.0.0.1:1" }, "write rqlite://"},
		"no port":              {func(s *Settings) { s.Store = "rqlite://127.0.0.1" }, "write rqlite://"},
		"an empty node":        {func(s *Settings) { s.Store = "rqlite://127.0.0.1:1,,127.0.0.1:2" }, "write rqlite://"},
		"far without TLS":      {func(s *Settings) { s.Store = "rqlite://10.0.0.1:4001" }, "--store-ca FILE"},
		"a password":           {func(s *Settings) { s.Store = "rqlite://me:secret@127.0.0.1:1" }, "--store-password-file"},
		"half a certificate":   {func(s *Settings) { s.StoreCA = "ca"; s.StoreCert = "x" }, "belong together"},
		"a certificate alone":  {func(s *Settings) { s.StoreCert = "x"; s.StoreKey = "y" }, "needs a --store-ca"},
		"a user alone":         {func(s *Settings) { s.Store = "rqlite://me@127.0.0.1:1" }, "belong together"},
		"no peer port":         {func(s *Settings) { s.PeerListen = "gw1" }, "write HOST:PORT"},
		"every address":        {func(s *Settings) { s.PeerListen = "0.0.0.0:7444" }, "write HOST:PORT"},
		"any port":             {func(s *Settings) { s.PeerListen = "10.0.0.1:0" }, "write HOST:PORT"},
		"another alphabet":     {func(s *Settings) { s.GatewayID = "gw\u00e9%41" }, "write a name"},
		"an odd name":          {func(s *Settings) { s.GatewayID = "a/b" }, "write a name"},
		"a long name":          {func(s *Settings) { s.GatewayID = strings.Repeat("a", 64) }, "write a name"},
	} {
		s := good
		c.change(&s)
		err := s.Check(func(flag string) string { return "--" + flag })
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestFiles: the password comes from a file, without the line's end, and what is no certificate is named.
func TestFiles(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	s := Settings{Store: "rqlite://me@127.0.0.1:1,127.0.0.1:2", StorePasswordFile: file("s3cret\n")}
	o, err := s.options()
	if err != nil || o.User != "me" || o.Password != "s3cret" || len(o.Endpoints) != 2 || o.TLS != nil {
		t.Errorf("%+v, %v", o, err)
	}
	for want, bad := range map[string]Settings{
		"is empty":           {Store: s.Store, StorePasswordFile: file("\n")},
		"no such file":       {Store: s.Store, StorePasswordFile: "/none"},
		"has no certificate": {Store: s.Store, StoreCA: file("x")},
		"the store's CA":     {Store: s.Store, StoreCA: "/none"},
		"for the store (--store-cert, --store-key): open": {Store: s.Store, StoreCA: ca(t), StoreCert: "/none", StoreKey: "/none"},
	} {
		if _, err := bad.options(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestReached: others reach a gateway under the host that it listens on, or under its name.
func TestReached(t *testing.T) {
	for listen, want := range map[string]string{":7444": "https://gw1:7444", "10.0.0.5:1": "https://10.0.0.5:1",
		"[::1]:2": "https://[::1]:2"} {
		if got := (Settings{PeerListen: listen}).url("gw1"); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
	if id, err := (Settings{GatewayID: "gw7"}).id(); id != "gw7" || err != nil {
		t.Errorf("%s, %v", id, err)
	}
	if id, err := (Settings{}).id(); id == "" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}
