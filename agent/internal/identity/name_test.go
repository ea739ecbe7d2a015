package identity_test

import (
	"context"
	"encoding/json"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/wire"
)

// TestNameFor: a machine enrols again under the name that its gateway gave it, until it is given another one of its own.
func TestNameFor(t *testing.T) {
	pair := &identity.Pair{}
	for _, c := range []struct {
		state     identity.State
		own, want string
	}{
		{identity.State{Current: pair, Name: "new", Asked: "old"}, "old", "new"},
		{identity.State{Current: pair, Name: "new", Asked: "old"}, "other", "other"},
		{identity.State{Current: pair, Name: "new"}, "old", "old"}, // nobody knows what it asked for
		{identity.State{Current: pair, Asked: "old"}, "old", "old"},
		{identity.State{Name: "new", Asked: "old"}, "old", "old"}, // it has not enrolled
		{identity.State{}, "old", "old"},
	} {
		if got := c.state.NameFor(c.own); got != c.want {
			t.Errorf("%+v, %s: got %s, want %s", c.state, c.own, got, c.want)
		}
	}
}

// TestAskedNameIsKept: the identity says what the machine would be called by itself, whatever name it asked for.
func TestAskedNameIsKept(t *testing.T) {
	b := newBench(t, nil)
	b.cfg.Name = "given"
	b.cfg.Own = "its-own"
	state, err := b.run(context.Background())
	if err != nil || state.Asked != "its-own" {
		t.Errorf("asked %q, %v", state.Asked, err)
	}
	if stored, err := b.directory.Load(); err != nil || stored.Asked != "its-own" {
		t.Errorf("stored %q, %v", stored.Asked, err)
	}
	var sent wire.RegisterRequest
	if got := b.g.Requests(wire.PathRegister); json.Unmarshal(got[0].Body, &sent) != nil || sent.Name != "given" {
		t.Errorf("sent %q", sent.Name)
	}
}
