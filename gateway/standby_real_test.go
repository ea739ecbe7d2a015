//go:build real

package main

import (
	"slices"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/store/rqlite/rqlitetest"
)

// TestRealStandBy is TestStandBy over three nodes of rqlite.
func TestRealStandBy(t *testing.T) {
	standBy(t, newSeveral(t, rqlitetest.NewNodes(t, 3).HTTP...))
}

// TestRealTakeover: from kill -9 of the active gateway to the first answer of another one it takes ten seconds at most, as the median of
// ten. Now and then a node of rqlite dies with it.
func TestRealTakeover(t *testing.T) {
	nodes := rqlitetest.NewNodes(t, 3)
	s := newSeveral(t, nodes.HTTP...)
	a := s.begin("gw1")
	a.active("gw1")
	b := s.begin("gw2")
	var took []time.Duration
	for i := range 10 {
		b.listed("the other one stands by", func(l api.GatewayList) bool { return len(l.Gateways) == 2 && l.Gateways[0].ID == a.id })
		if i%4 == 3 {
			nodes.Kill(i % 3)
		}
		began := time.Now()
		a.now().kill()
		b.active(b.id)
		took = append(took, time.Since(began))
		if i%4 == 3 {
			nodes.Start(i % 3)
		}
		a.run()
		a, b = b, a
	}
	slices.Sort(took)
	t.Logf("takeovers: %s", took)
	if median := took[len(took)/2]; median > 10*time.Second {
		t.Errorf("the median of ten is %s", median)
	}
}
