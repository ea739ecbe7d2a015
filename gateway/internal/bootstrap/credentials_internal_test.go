package bootstrap

import (
	"fmt"
	"testing"
	"time"

	"muster/store"
)

func TestCredentials(t *testing.T) {
	var c credentials
	now := time.Unix(1_000_000, 0)
	c.keep(store.Token{ID: "a", Tenant: "t"}, now, 0)
	for _, at := range []struct {
		after time.Duration
		found bool
	}{{0, true}, {credentialMemory - 1, true}, {credentialMemory, false}, {-1, false}} {
		if got, _, found := c.find("a", now.Add(at.after)); found != at.found || found && got.Tenant != "t" {
			t.Errorf("after %s: %+v, %v", at.after, got, found)
		}
	}
	if _, _, found := c.find("b", now); found {
		t.Error("found what was not kept")
	}
	for i := range 2 * credentialBound { // all of one moment, so none is too old
		c.keep(store.Token{ID: fmt.Sprint(i)}, now, 0)
		if len(c.known) > credentialBound {
			t.Fatalf("%d are remembered", len(c.known))
		}
	}
	last := fmt.Sprint(2*credentialBound - 1)
	if _, _, found := c.find(last, now); !found {
		t.Error("the newest is not remembered")
	}
	later := now.Add(credentialMemory)
	for i := range credentialBound {
		c.keep(store.Token{ID: fmt.Sprint("later-", i)}, later, 0)
	}
	if _, found := c.known[last]; found || len(c.known) != credentialBound {
		t.Errorf("%d are remembered, the old one: %v", len(c.known), found)
	}
	_, version, _ := c.find("c", later)
	c.forget()
	c.keep(store.Token{ID: "c"}, later, version)
	if _, now, found := c.find("c", later); found || now == version {
		t.Error("what was read before it was ended is remembered")
	}
}
