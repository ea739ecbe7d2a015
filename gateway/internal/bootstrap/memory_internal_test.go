package bootstrap

import (
	"strconv"
	"testing"
	"time"
)

// TestFullNonceMemory fills it from inside: through requests it would take a million of them.
func TestFullNonceMemory(t *testing.T) {
	now := time.Now()
	n := nonces{used: map[nonceKey]int64{}, pruned: now}
	for i := range nonceBound - 1 {
		n.used[nonceKey([]byte(strconv.Itoa(1_000_000_000_000_000+i)))] = now.UnixMilli()
	}
	if got := n.take("the last one", now); got != fresh {
		t.Errorf("got %d, want fresh", got)
	}
	if got := n.take("one too many", now); got != full {
		t.Errorf("got %d, want full", got)
	}
	if got := n.take("the last one", now); got != repeated {
		t.Errorf("got %d, want repeated", got)
	}
	later := now.Add(failWindow + time.Second)
	if got := n.take("one too many", later); got != fresh || len(n.used) != 2 {
		t.Errorf("a minute later: got %d with %d remembered, want fresh with 2", got, len(n.used))
	}
}

// TestNoncesWhenTheClockIsSet: a real clock's readings carry the time that has passed, and that decides what is forgotten.
func TestNoncesWhenTheClockIsSet(t *testing.T) {
	var n nonces
	now := time.Now()
	n.take("a", now)
	if got := n.take("a", now.Add(nonceMemory)); got != repeated {
		t.Errorf("got %d, want it remembered as long as its request could be accepted", got)
	}
	if got := n.take("a", now.Add(nonceMemory+failWindow+2*time.Second)); got != fresh {
		t.Errorf("long after: got %d", got)
	}
	wall := now.Round(0) // a clock that cannot tell: set back, it forgets nothing
	var m nonces
	m.take("b", wall.Add(10*time.Hour))
	if got := m.take("b", wall); got != repeated {
		t.Errorf("set back: got %d", got)
	}
}
