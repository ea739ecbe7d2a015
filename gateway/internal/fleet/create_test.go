package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func TestCreate(t *testing.T) {
	f := newFleet(t)
	by := store.Actor{Name: "operator:socket"}
	n, err := f.Create(t.Context(), api.CreateNodeRequest{Name: "gpu-7", Labels: map[string]string{"rack": "7"}, GPUs: 8}, by)
	if err != nil || n.State != string(fleet.Ready) || n.Tenant != "default" || n.Labels["rack"] != "7" || n.GPUsExpected != 8 ||
		n.Status != "pending" {
		t.Fatalf("got %+v, %v", n, err)
	}
	if err := n.Bootstrappable(false); err != nil {
		t.Errorf("a node that waits: %v", err)
	}
	for range 2 { // the second fetch changes nothing
		if err := f.Fetched(t.Context(), n.ID, store.Actor{Name: "token:msb_x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := f.Node(t.Context(), "", "gpu-7"); n.State != string(fleet.Deploying) || n.Bootstrappable(false) != nil {
		t.Errorf("state %s", n.State)
	}
	if err := f.Fetched(t.Context(), "n-nobody", by); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	commissioned := fleet.Node{Node: store.Node{Name: "x", State: string(fleet.Commissioned)}}
	var refused *wire.ErrorDetail
	if err := commissioned.Bootstrappable(true); !errors.As(err, &refused) || refused.Code != wire.CodeIllegalMove {
		t.Errorf("commissioned: %v", err)
	}
}

// TestBoundToken: a token that is bound to a node leads nowhere else.
func TestBoundToken(t *testing.T) {
	f := newFleet(t)
	by := store.Actor{Name: "operator:socket"}
	for _, name := range []string{"gpu-7", "gpu-8", "gone"} {
		if _, err := f.Create(t.Context(), api.CreateNodeRequest{Name: name}, by); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Apply(t.Context(), "", "gone", fleet.Retire, by); err != nil {
		t.Fatal(err)
	}
	n, err := f.Node(t.Context(), "", "gpu-7")
	if err != nil {
		t.Fatal(err)
	}
	bound := func(s *store.Token) {
		s.NodeID = n.ID
		s.Tenant = n.Tenant
	}
	token := f.token("msb_b001", bound)
	_, err = f.Enrol(t.Context(), f.applicant(token, "gpu-8", newKey(t)))
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != wire.CodeWrongNode {
		t.Errorf("another node's name: %v", err)
	}
	other := f.applicant(token, "gpu-7", newKey(t))
	other.Identity = &fleet.Identity{NodeID: "n-8"}
	if _, err = f.Enrol(t.Context(), other); !errors.As(err, &refused) || refused.Code != wire.CodeWrongNode {
		t.Errorf("another node's key: %v", err)
	}
	if e := f.events("enrol.refused"); len(e) != 2 || e[0].NodeID != n.ID || e[0].NodeName != "gpu-7" || e[0].Tenant != n.Tenant ||
		e[0].Outcome != wire.CodeWrongNode {
		t.Errorf("events: %+v", e)
	}
	ad, err := f.Enrol(t.Context(), f.applicant(token, "gone", newKey(t))) // a name that nobody has is no claim to be another
	if err != nil || ad.Node.ID != n.ID || ad.Node.Name != "gpu-7" || ad.New {
		t.Errorf("got %+v, %v", ad.Node, err)
	}
	f.clock.Forward(2 * time.Hour)
	if _, err := f.Enrol(t.Context(), f.applicant(token, "gpu-7", newKey(t))); err == nil ||
		f.events("enrol.refused")[0].NodeName != "gpu-7" {
		t.Errorf("a used one: %v, %+v", err, f.events("enrol.refused")[0])
	}
	if node, _ := f.Node(t.Context(), "", "gpu-7"); node.Bootstrappable(false) == nil || node.Bootstrappable(true) != nil {
		t.Error("an enrolled node is bootstrapped again only when that is said")
	}
}

// TestCreateTaken: the hint for a name that is taken names a way that works.
func TestCreateTaken(t *testing.T) {
	f := newFleet(t)
	by := store.Actor{Name: "operator:socket"}
	f.enrolled("box") // of the tenant platform
	for _, name := range []string{"waits", "fetched"} {
		n, err := f.Create(t.Context(), api.CreateNodeRequest{Name: name, Tenant: "platform"}, by)
		if err == nil && name == "fetched" {
			err = f.Fetched(t.Context(), n.ID, by)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, tenant, want string }{
		{"waits", "platform", "choose another, or bootstrap that node: muster bootstrap waits"},
		{"fetched", "platform", "choose another, or bootstrap that node: muster bootstrap fetched"},
		{"box", "platform", "choose another, or bootstrap that node again: muster bootstrap box --again"},
		{"waits", "research", "choose another"}, {"box", "research", "choose another"},
	} {
		_, err := f.Create(t.Context(), api.CreateNodeRequest{Name: c.name, Tenant: c.tenant}, by)
		if code(err) != wire.CodeNameInUse || hint(err) != c.want {
			t.Errorf("%s of %s: %v, hint %q", c.name, c.tenant, err, hint(err))
		}
	}
	_, err := f.Create(t.Context(), api.CreateNodeRequest{Name: "a b"}, by)
	if code(err) != wire.CodeBadName || strings.Contains(hint(err), "--name") || !strings.Contains(hint(err), "muster node create NAME") {
		t.Errorf("a bad name: %v, hint %q", err, hint(err))
	}
}
