package registry_test

import (
	"errors"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/registry"
	"muster/store"
)

func TestCreate(t *testing.T) {
	f := newFleet(t)
	by := store.Actor{Name: "operator:socket"}
	n, err := f.Create(t.Context(), registry.NewNode{Name: "gpu-7", Labels: map[string]string{"rack": "7"}, GPUs: 8}, by)
	if err != nil || n.State != string(registry.Ready) || n.Tenant != "default" || n.Labels["rack"] != "7" || n.GPUsExpected != 8 || n.Status != "pending" {
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
	if n, _ := f.Node(t.Context(), "", "gpu-7"); n.State != string(registry.Deploying) || n.Bootstrappable(false) != nil {
		t.Errorf("state %s", n.State)
	}
	if err := f.Fetched(t.Context(), "n-nobody", by); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	commissioned := registry.Node{Node: store.Node{Name: "x", State: string(registry.Commissioned)}}
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
		if _, err := f.Create(t.Context(), registry.NewNode{Name: name}, by); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Apply(t.Context(), "", "gone", registry.Retire, by); err != nil {
		t.Fatal(err)
	}
	n, err := f.Node(t.Context(), "", "gpu-7")
	if err != nil {
		t.Fatal(err)
	}
	bound := func(s *store.Token) { s.NodeID, s.Tenant = n.ID, n.Tenant }
	token := f.token("msb_b001", bound)
	_, err = f.Enrol(t.Context(), f.applicant(token, "gpu-8", newKey(t)))
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != wire.CodeWrongNode {
		t.Errorf("another node's name: %v", err)
	}
	other := f.applicant(token, "gpu-7", newKey(t))
	other.Identity = &registry.Identity{NodeID: "n-8"}
	if _, err = f.Enrol(t.Context(), other); !errors.As(err, &refused) || refused.Code != wire.CodeWrongNode {
		t.Errorf("another node's key: %v", err)
	}
	ad, err := f.Enrol(t.Context(), f.applicant(token, "gone", newKey(t))) // a name that nobody has is no claim to be another
	if err != nil || ad.Node.ID != n.ID || ad.Node.Name != "gpu-7" || ad.New {
		t.Errorf("got %+v, %v", ad.Node, err)
	}
	if node, _ := f.Node(t.Context(), "", "gpu-7"); node.Bootstrappable(false) == nil || node.Bootstrappable(true) != nil {
		t.Error("an enrolled node is bootstrapped again only when that is said")
	}
}
