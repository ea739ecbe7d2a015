package cli_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

// TestServiceOlder: a muster that does not know the database's schema changes nothing, and the gateway that runs goes on.
func TestServiceOlder(t *testing.T) {
	c := newComputer(t)
	c.done("install", "--public-url", "https://gw.example")
	c.write("/download/muster", "version zero", 0o755)
	before := c.tree()
	c.has = 19
	code, _, errs := c.muster("install", "--listen", ":8443")
	if code != 1 || !strings.Contains(errs, "schema 19, and this muster knows 5") || !strings.Contains(errs, "hint: ") {
		t.Errorf("code %d\n%s", code, errs)
	}
	if !maps.Equal(before, c.tree()) || c.installed() != "version one" || strings.Contains(strings.Join(c.calls, "\n"), "restart") ||
		strings.Contains(c.file("/etc/muster/gateway.env", 0o600), "8443") {
		t.Errorf("it changed the machine: %v", c.calls)
	}
	c.has = 0
	c.unread = errors.New("the database file is damaged")
	if code, _, errs := c.muster("install"); code != 1 || !strings.Contains(errs, "damaged") || c.installed() != "version one" {
		t.Errorf("code %d\n%s", code, errs)
	}
}

// TestServicePutBack: where the new program does not get ready, the gateway that ran before runs again, with its settings.
func TestServicePutBack(t *testing.T) {
	const again = "the gateway that ran before serves again"
	for name, test := range map[string]struct {
		set  func(c *computer)
		back bool
		says string
	}{
		"it does not start":           {func(c *computer) { c.bad = "version two" }, true, again},
		"it does not get ready":       {func(c *computer) { c.mute = "version two" }, true, again},
		"the unit was changed":        {func(c *computer) { c.bad = "version two"; c.reload = "yes" }, true, again},
		"nothing gets ready":          {func(c *computer) { c.ready = errors.New("no") }, true, "the gateway does not get ready: "},
		"it has changed the database": {func(c *computer) { c.mute = "version two"; c.migrates = true }, false, "changed the database already"},
		"nothing ran before":          {func(c *computer) { c.bad = "version two"; c.state = "failed" }, false, "did not start"},
	} {
		c := newComputer(t)
		c.done("install", "--public-url", "https://gw.example")
		env := c.file("/etc/muster/gateway.env", 0o600)
		unit := c.file("/etc/systemd/system/muster.service", 0o644)
		c.write("/download/muster", "version two", 0o755)
		test.set(c)
		code, _, errs := c.muster("install", "--listen", ":443")
		if code != 1 || !strings.Contains(errs, test.says) || strings.Contains(errs, again) != (test.says == again) {
			t.Errorf("%s: code %d\n%s", name, code, errs)
		}
		if c.file("/usr/local/bin/muster.before", 0o755) != "version one" || (c.installed() == "version one") != test.back ||
			(c.file("/etc/muster/gateway.env", 0o600) == env) != test.back ||
			(c.file("/etc/systemd/system/muster.service", 0o644) == unit) != test.back {
			t.Errorf("%s: %s is installed, put back %t", name, c.installed(), test.back)
		}
	}
	c := newComputer(t)
	c.done("install", "--public-url", "https://gw.example")
	c.write("/download/muster", "version two", 0o755)
	c.bad = "version two"
	c.blocks = true
	if code, _, errs := c.muster("install"); code != 1 || !strings.Contains(errs, "could not be put back") {
		t.Errorf("code %d\n%s", code, errs)
	}
}
