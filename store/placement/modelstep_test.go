package placement_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/store"
	"muster/store/placement"
	"muster/store/rqlite/rqlitetest"
	"muster/store/storetest"
)

// reopened is a database that is closed and opened again between steps.
type reopened struct {
	t     *testing.T
	path  string
	node  *rqlitetest.Node // in place of the file
	store *store.Store
	r     placement.Records
}

func newReopened(t *testing.T) *reopened {
	t.Helper()
	db := &reopened{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
	if os.Getenv(storetest.Engine) != "" {
		db.node = rqlitetest.New(t)
	}
	db.open()
	t.Cleanup(func() { _ = db.store.Close() })
	return db
}

func (db *reopened) open() {
	db.t.Helper()
	o := store.Options{Path: db.path, MasterKey: storetest.MasterKey()}
	if db.node != nil {
		o.Cluster = storetest.Take(db.t, "127.0.0.1:4001", db.node)
	}
	s, err := store.Open(context.WithoutCancel(db.t.Context()), o)
	must(db.t, err)
	db.store, db.r = s, placement.New(s.Records())
}

func (m *model) reopen() {
	must(m.t, m.db.store.Close())
	m.db.open()
	m.note("reopen", nil, true)
}

// claim is of a new allocation, or of one that waits. Some claims want what is not there.
func (m *model) claim() {
	id, what := m.name("a"), "claim"
	tenant := fmt.Sprint("tenant-", m.rng.IntN(modelTenants))
	a := asked(id)
	a.Tenant = tenant
	c := placement.Claim{Allocation: id, New: &a, At: m.now, EndsAt: m.now.Add(time.Duration(1+m.rng.IntN(5)) * time.Hour)}
	allowed := true
	old := pick(m, m.allocations)
	for try := 0; old != "" && m.allocations[old].state != placement.Waiting && try < 4; try++ {
		old = pick(m, m.allocations)
	}
	if old != "" && m.rng.IntN(3) == 0 {
		what = "queue"
		tenant = m.allocations[old].tenant
		id, c.Allocation, c.New = old, old, nil
		allowed = m.allocations[old].state == placement.Waiting
	}
	taken := map[string]*modelHold{}
	for range 1 + m.rng.IntN(3) {
		s := m.slots[pick(m, m.slots)]
		for try := 0; s != nil && !m.free(s) && try < 6; try++ { // most claims are reasonable
			s = m.slots[pick(m, m.slots)]
		}
		if s == nil {
			continue
		}
		c.Slots = append(c.Slots, placement.Pick{SlotID: s.ID, Digest: s.Digest})
		allowed = allowed && m.free(s)
		for _, u := range s.Units {
			c.Want++
			place := s.NodeID + "/" + u.Key
			allowed = allowed && taken[place] == nil
			taken[place] = &modelHold{allocation: id, slot: s.ID, tenant: tenant, state: placement.Held, unit: u}
		}
	}
	if m.rng.IntN(20) == 0 {
		c.Want++
		allowed = false
	}
	quota, limited := m.quotas[tenant]
	used := int64(len(taken))
	for _, h := range m.holds {
		if h.tenant == tenant {
			used++
		}
	}
	allowed = allowed && c.Want > 0 && !(limited && used > quota)
	if !m.note(what, m.db.r.Claim(m.t.Context(), c), allowed) {
		return
	}
	m.allocations[id] = &modelAllocation{tenant: tenant, state: placement.Allocated, ends: c.EndsAt}
	for place, h := range taken {
		m.holds[place] = h
	}
}

// free reports whether a slot can be claimed.
func (m *model) free(s *placement.Slot) bool {
	n := m.nodes[s.NodeID]
	for _, u := range s.Units {
		if m.overlaps(s.NodeID, u) {
			return false
		}
	}
	return n.state == "active" && n.current && n.ready && n.digest == s.Digest && s.Decision == placement.Approved && !s.Gone
}

// overlaps reports whether a unit, the card that it is a part of, or a part of it, is held.
func (m *model) overlaps(node string, u placement.Unit) bool {
	for place, h := range m.holds {
		if strings.HasPrefix(place, node+"/") && (h.unit.UUID == u.UUID || h.unit.Key == u.Key ||
			h.unit.PCI() == u.PCI() && (h.unit.Key == h.unit.PCI() || u.Key == u.PCI())) {
			return true
		}
	}
	return false
}

func (m *model) wait() {
	a := asked(m.name("a"))
	a.Tenant = fmt.Sprint("tenant-", m.rng.IntN(modelTenants))
	m.note("wait", m.db.r.Add(m.t.Context(), a), true)
	m.allocations[a.ID] = &modelAllocation{tenant: a.Tenant, state: placement.Waiting}
}

func (m *model) release() {
	id := pick(m, m.allocations)
	if id == "" {
		return
	}
	a := m.allocations[id]
	allowed := a.state == placement.Waiting || a.state == placement.Allocated
	if m.note("release", m.db.r.Release(m.t.Context(), placement.Release{ID: id, Why: "asked", At: m.now}), allowed) {
		m.ended(id)
	}
	if a.state == placement.Released && m.rng.IntN(2) == 0 { // else the model would choose old ones alone
		delete(m.allocations, id)
	}
}

// ended is what a release does.
func (m *model) ended(id string) {
	for _, place := range m.unitsOf(id, "") {
		m.holds[place].state = placement.Cleaning
	}
	m.allocations[id].state = placement.Releasing
	m.settle(id, false)
}

// someUnits are some of the units of an allocation on one node, and whether any is to be cleaned there.
func (m *model) someUnits() (allocation, node string, places []string, any bool) {
	place := pick(m, m.holds)
	for try := 0; place != "" && m.holds[place].state == placement.Held && try < 4; try++ {
		place = pick(m, m.holds)
	}
	if place == "" {
		return "", "", nil, false
	}
	node, _, _ = strings.Cut(place, "/")
	allocation = m.holds[place].allocation
	for _, place := range m.unitsOf(allocation, node+"/") {
		any = any || m.holds[place].state != placement.Held
		if m.rng.IntN(3) > 0 {
			places = append(places, place)
		}
	}
	return allocation, node, places, any
}

func (m *model) clean() {
	allocation, node, places, allowed := m.someUnits()
	var keys []string
	for _, place := range places {
		keys = append(keys, m.holds[place].unit.Key)
	}
	if !m.note("clean", m.db.r.Clean(m.t.Context(), allocation, node, keys, m.now), allowed) {
		return
	}
	for _, place := range places {
		delete(m.holds, place)
	}
	m.settle(allocation, false)
	m.dropGone(node)
}

func (m *model) block() {
	allocation, node, places, allowed := m.someUnits()
	var left []placement.Obstacle
	for _, place := range places {
		left = append(left, placement.Obstacle{Unit: m.holds[place].unit.Key, Reason: "it is in use", Next: "wait"})
	}
	if m.note("block", m.db.r.Block(m.t.Context(), allocation, node, left, m.now.Add(time.Minute)), allowed) {
		for _, place := range places {
			m.holds[place].state = placement.Blocked
		}
	}
}

// expire lets time pass, and ends what has come to its end.
func (m *model) expire() {
	m.now = m.now.Add(time.Duration(m.rng.IntN(3600)) * time.Second)
	ending, err := m.db.r.Ending(m.t.Context(), m.now)
	must(m.t, err)
	want := 0
	for _, a := range m.allocations {
		if a.state == placement.Allocated && !a.ends.After(m.now) {
			want++
		}
	}
	if len(ending) != want {
		m.t.Fatalf("%d allocations end, want %d", len(ending), want)
	}
	for _, a := range ending {
		m.note("expire", m.db.r.Release(m.t.Context(), placement.Release{ID: a.ID, Why: "expired", At: m.now, Expired: true}), true)
		m.ended(a.ID)
	}
}

func (m *model) extend() {
	id := pick(m, m.allocations)
	if id == "" {
		return
	}
	a := m.allocations[id]
	to := m.now.Add(time.Hour)
	if m.note("extend", m.db.r.Extend(m.t.Context(), id, a.ends, to), a.state == placement.Allocated) {
		a.ends = to
	}
}

func (m *model) quota() {
	tenant := fmt.Sprint("tenant-", m.rng.IntN(modelTenants))
	delete(m.quotas, tenant)
	var limit *int64
	if m.rng.IntN(3) > 0 {
		n := m.rng.Int64N(12)
		limit = &n
		m.quotas[tenant] = n
	}
	m.note("quota", m.db.r.SetQuota(m.t.Context(), tenant, limit, m.now, "account:ops"), true)
}
