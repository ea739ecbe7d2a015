package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// rename gives the code of the refusal, or ok.
func (f *world) rename(tenant, who, name string) string {
	f.t.Helper()
	n, err := f.Rename(f.t.Context(), tenant, who, name, operator)
	if err == nil && n.Name != name {
		f.t.Errorf("%s is called %s, want %s", who, n.Name, name)
	}
	if err != nil && hint(err) == "" {
		f.t.Errorf("%s to %s: %v has no hint", who, name, err)
	}
	return code(err)
}

func TestRename(t *testing.T) {
	f := newFleet(t)
	one := f.enrolled("one")
	f.enrolled("two")
	f.enrolled("gone")
	f.enrolled("banned")
	f.apply("gone", fleet.Retire)
	f.apply("banned", fleet.Ban)
	other := f.token("mse_other", func(k *store.Token) { k.Tenant = "research" })
	if _, err := f.Enrol(t.Context(), f.applicant(other, "theirs", newKey(t))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tenant, who, to, want string }{
		{"", "one", "two", wire.CodeNameInUse},
		{"", "one", "theirs", wire.CodeNameInUse},
		{"", "one", "banned", wire.CodeBanned},
		{"", "one", "-x", wire.CodeBadName},
		{"", "one", "", wire.CodeBadName},
		{"", "one", "a b", wire.CodeBadName},
		{"", "one", "n-0123456789abcdef", wire.CodeBadName},
		{"", "nobody", "x", wire.CodeNotFound},
		{"research", "one", "x", wire.CodeNotFound},
		{"", "gone", "x", wire.CodeRetired},
		{"", "one", "one", "ok"}, // nothing to do
		{"platform", "one", "gone", "ok"},
		{"", one.Node.ID, "gone", "ok"},
		{"", one.Node.ID, "three", "ok"},
		{"", "two", "one", "ok"}, // which is free now
	} {
		if got := f.rename(c.tenant, c.who, c.to); got != c.want {
			t.Errorf("%s to %q: got %s, want %s", c.who, c.to, got, c.want)
		}
	}
	if n := f.seen("three"); n.ID != one.Node.ID || n.EnrolmentID != one.Node.EnrolmentID {
		t.Errorf("three is %+v", n)
	}
	if id := f.identity(one.Certificate.Fingerprint); id.Name != "three" {
		t.Errorf("its identity says %s", id.Name)
	}
	events := f.events("node.renamed")
	if len(events) != 3 || events[2].Detail["from"] != "one" || events[2].Detail["to"] != "gone" || events[2].NodeName != "gone" ||
		events[2].NodeID != one.Node.ID || events[2].Actor != operator.Name || !events[2].Security || events[2].Tenant != "platform" {
		t.Errorf("got events %+v", events)
	}
}

// TestRenameAtOnce: of several nodes that are to get one name at the same time, one gets it.
func TestRenameAtOnce(t *testing.T) {
	f := newFleet(t)
	const n = 8
	for i := range n {
		f.enrolled(fmt.Sprint("n", i))
	}
	got := parallel(n, func(i int) string {
		_, err := f.Rename(t.Context(), "", fmt.Sprint("n", i), "best", operator)
		return code(err)
	})
	if got["ok"] != 1 || got[wire.CodeNameInUse] != n-1 {
		t.Errorf("got %v", got)
	}
	if events := f.events("node.renamed"); len(events) != 1 {
		t.Errorf("got %d events", len(events))
	}
	got = parallel(n, func(i int) string { // one node that gets several names at once has each for a while
		_, err := f.Rename(t.Context(), "", f.seen("best").ID, "best", operator)
		return code(err)
	})
	if got["ok"] != n {
		t.Errorf("the same again: got %v", got)
	}
}

// TestRenamedMachineComesBack: a machine that proves the key of its node is that node, also if it asks for the name from before.
func TestRenamedMachineComesBack(t *testing.T) {
	f := newFleet(t)
	was := f.enrolled("old")
	if got := f.rename("", "old", "new"); got != "ok" {
		t.Fatal(got)
	}
	back := func(id, tenant, name string) (fleet.Admission, error) {
		k := f.token(id, func(k *store.Token) { k.Tenant = tenant })
		a := f.applicant(k, name, newKey(t))
		a.Identity = f.identity(was.Certificate.Fingerprint)
		return f.Enrol(t.Context(), a)
	}
	got, err := back("mse_b1", "platform", "old")
	if err != nil || got.New || got.Node.ID != was.Node.ID || got.Node.Name != "new" {
		t.Fatalf("got %+v, %v", got.Node, err)
	}
	was = got
	if got, err := back("mse_b2", "research", "old"); err != nil || !got.New {
		t.Errorf("with a token of another tenant: %+v, %v", got.Node, err)
	}
	f.wantRefusal(func() error { _, err := back("mse_b3", "platform", "old"); return err }(), wire.CodeNameInUse) // others have it now
	k := f.token("mse_b4", func(k *store.Token) { k.Name = "named" })
	a := f.applicant(k, "old2", newKey(t))
	a.Identity = f.identity(was.Certificate.Fingerprint)
	if got, err := f.Enrol(t.Context(), a); err != nil || !got.New || got.Node.Name != "named" {
		t.Errorf("with a token that names another node: %+v, %v", got.Node, err)
	}
	f.apply("new", fleet.Retire)
	stranger := f.applicant(f.token("mse_b5", nil), "new", newKey(t))
	if got, err := f.Enrol(t.Context(), stranger); err != nil || !got.New {
		t.Errorf("a retired node's name: %+v, %v", got.Node, err)
	}
}

// TestTokenWithAName: the operator's name wins over the machine's, for a new node and for one that is replaced.
func TestTokenWithAName(t *testing.T) {
	f := newFleet(t)
	k := f.token("mse_named", func(k *store.Token) { k.Name, k.Labels = "gpu-7", map[string]string{"batch": "x"} })
	key := newKey(t)
	got, err := f.Enrol(t.Context(), f.applicant(k, "its-own", key))
	if err != nil || !got.New || got.Node.Name != "gpu-7" || f.stored("gpu-7").ID != got.Node.ID {
		t.Fatalf("got %+v, %v", got.Node, err)
	}
	if again, err := f.Enrol(t.Context(), f.applicant(k, "another", key)); err != nil || again.New || again.Node.Name != "gpu-7" {
		t.Errorf("again: %+v, %v", again.Node, err)
	}
	f.beat(got, 1, nil)
	second := f.token("mse_second", func(k *store.Token) { k.Name = "gpu-7" })
	_, err = f.Enrol(t.Context(), f.applicant(second, "its-own", newKey(t)))
	f.wantRefusal(err, wire.CodeNameInUse)
	var said *wire.ErrorDetail
	if errors.As(err, &said); strings.Contains(said.Hint, "--name;") || !strings.Contains(said.Hint, "muster token create --name") {
		t.Errorf("the hint is %s", said.Hint)
	}
	f.clock.Forward(time.Hour)
	third := f.token("mse_third", func(k *store.Token) { k.Name = "gpu-7" })
	taken, err := f.Enrol(t.Context(), f.applicant(third, "its-own", newKey(t)))
	if err != nil || taken.New || taken.Node.ID != got.Node.ID || f.stored("gpu-7").Labels["batch"] != "x" {
		t.Errorf("in the place of a silent node: %+v, %v", taken.Node, err)
	}
	f.clock.Forward(time.Hour)
	anybody := f.token("mse_anybody", nil)
	if taken, err = f.Enrol(t.Context(), f.applicant(anybody, "gpu-7", newKey(t))); err != nil || len(f.stored("gpu-7").Labels) != 0 {
		t.Errorf("with a token that does not name it: %+v, %v", f.stored("gpu-7"), err)
	}
	for name, want := range map[string]string{"gpu-7": "ok", "free": "ok", "-": wire.CodeBadName, "n-0123456789abcdef": wire.CodeBadName} {
		if got := code(f.Nameable(t.Context(), "platform", name)); got != want {
			t.Errorf("a token for %q: got %s, want %s", name, got, want)
		}
	}
	if got := code(f.Nameable(t.Context(), "research", "gpu-7")); got != wire.CodeNameInUse {
		t.Errorf("a token of another tenant: got %s", got)
	}
	f.apply("gpu-7", fleet.Ban)
	if got := code(f.Nameable(t.Context(), "platform", "gpu-7")); got != wire.CodeBanned {
		t.Errorf("a banned name: got %s", got)
	}
}

// TestBoundTokenAfterRename: the token of a node goes on after the node was renamed, also if another node has its old name meanwhile.
func TestBoundTokenAfterRename(t *testing.T) {
	f := newFleet(t)
	f.enrolled("old")
	id := f.stored("old").ID
	bound := func(k *store.Token) { k.NodeID, k.Name = id, "old" }
	k := f.token("msb_1", bound)
	if got := f.rename("", "old", "new"); got != "ok" {
		t.Fatal(got)
	}
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_old2", nil), "old", newKey(t))); err != nil {
		t.Fatal(err)
	}
	got, err := f.Enrol(t.Context(), f.applicant(k, "old", newKey(t)))
	if err != nil || got.Node.ID != id || got.Node.Name != "new" {
		t.Errorf("got %+v, %v", got.Node, err)
	}
	f.enrolled("other")
	_, err = f.Enrol(t.Context(), f.applicant(f.token("msb_2", bound), "other", newKey(t)))
	f.wantRefusal(err, wire.CodeWrongNode)
}
