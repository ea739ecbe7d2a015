package account

import (
	"maps"
	"strings"
	"testing"

	"muster/agent/wire"
)

// Allocations of the tests.
const (
	allocationA = "7f2kq3xw5dhz6m4a"
	allocationB = "2222222222222222"
)

// adaOf is ada for an allocation.
func adaOf(allocation string) wire.ProvisionUser {
	return ada(func(p *wire.ProvisionUser) { p.Allocation = allocation })
}

// TestTakeOver: nobody gets into an account that was made for another allocation, or for none, nor into its home directory.
func TestTakeOver(t *testing.T) {
	for name, one := range map[string]struct {
		prepare    func(*box)
		allocation string
		want       string
	}{
		"of a person": {nil, allocationB, "muster made the account ada for no allocation"},
		"of another": {func(b *box) {
			b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
			b.made(adaOf(allocationA))
		}, allocationB, "for the allocation " + allocationA},
		"without one": {func(b *box) {
			b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
			b.made(adaOf(allocationA))
		}, "", "for the allocation " + allocationA},
		"a kept home": {func(b *box) { b.removed(wire.DeprovisionUser{Username: "ada"}) }, allocationB, "remove_home=true username=ada"},
		"not muster's": {func(b *box) {
			b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
			b.write("etc/passwd", b.read("etc/passwd")+"ada:x:1001:1001::/home/ada:/bin/sh\n", 0o644)
		}, allocationB, "muster did not make"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.made(ada(nil))
			if one.prepare != nil {
				one.prepare(b)
			}
			b.accounts = b.agent()
			before := b.tree()
			p := adaOf(one.allocation)
			p.Keys = []string{keyTwo}
			_, err := b.provision(p)
			b.refused(err, one.want, before)
		})
	}
}

// TestSameAllocation: the allocation's own tasks change its account, also after a start of the agent and after one was cut off.
func TestSameAllocation(t *testing.T) {
	b := newBox(t)
	b.cut = "useradd tables"
	if !b.cutAt(1000, func() { _, _ = b.provision(adaOf(allocationA)) }) {
		t.Fatal("not cut off")
	}
	b.accounts = b.agent()
	if _, err := b.provision(adaOf(allocationB)); err == nil || !strings.Contains(err.Error(), allocationA) {
		t.Errorf("%v", err)
	}
	b.made(adaOf(allocationA))
	b.accounts = b.agent()
	if done := b.made(adaOf(allocationA)); done.Changed || done.UID != 1001 {
		t.Errorf("%+v", done)
	}
	p := adaOf(allocationA)
	p.Keys = []string{keyTwo}
	if done := b.made(p); !done.Changed || b.read("home/ada/.ssh/authorized_keys") != keysHead+keyTwo+"\n" {
		t.Errorf("%+v", done)
	}
}

// TestEndAllocation: an allocation's account goes with its home directory, also if only that is left. Others of the name stay.
func TestEndAllocation(t *testing.T) {
	b := newBox(t)
	end := func(name, allocation string) Deprovisioned {
		t.Helper()
		b.calls = nil
		done, err := b.accounts.EndAllocation(t.Context(), name, allocation, &b.out)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	stays := func(name, allocation string) {
		t.Helper()
		before := b.tree()
		if done := end(name, allocation); done.Changed || len(done.Removed) != 0 || len(b.calls) != 0 || !maps.Equal(before, b.tree()) {
			t.Errorf("%s of %s: %+v, and it ran %q", name, allocation, done, b.calls)
		}
	}
	stays("ada", allocationA) // there is none
	stays("alice", allocationA)
	b.made(ada(nil))
	stays("ada", allocationA)
	b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true})

	b.made(adaOf(allocationA))
	if done := end("ada", allocationA); len(done.Removed) != 1 || b.has("home/ada") || strings.Contains(b.read("etc/passwd"), "ada:") {
		t.Errorf("%+v", done)
	}
	b.made(adaOf(allocationB)) // a newer one has made it anew
	b.accounts = b.agent()
	stays("ada", allocationA)

	b.removed(wire.DeprovisionUser{Username: "ada"})
	stays("ada", allocationA)
	if done := end("ada", allocationB); !done.Changed || b.has("home/ada") {
		t.Errorf("%+v", done)
	}
	b.write("state/accounts.json", "{", 0o600)
	if _, err := b.accounts.EndAllocation(t.Context(), "ada", allocationB, &b.out); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v", err)
	}
}

// TestBound: the accounts that belong to allocations are those that were made for them and are still there.
func TestBound(t *testing.T) {
	b := newBox(t)
	want := func(what string, want map[int]string) {
		t.Helper()
		if got := b.accounts.Bound(); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	want("none was made", map[int]string{})
	b.made(adaOf(allocationA))
	want("one was made", map[int]string{1001: allocationA})
	b.removed(wire.DeprovisionUser{Username: "ada"})
	want("its home alone is left", map[int]string{})
	b.made(ada(func(p *wire.ProvisionUser) { p.Username = "bob" }))
	want("one of no allocation", map[int]string{})
	b.write("state/accounts.json", "{", 0o600)
	want("the record is damaged", map[int]string{})
}
