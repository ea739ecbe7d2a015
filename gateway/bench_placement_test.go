package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/inventory/profile"
	"muster/gateway/internal/placement/inventory/slot"
	"muster/gateway/internal/view"
	"muster/store"
	slots "muster/store/placement"
)

const (
	slotNodes    = 1250 // of pageGPUs GPUs: 10,000 slots of one GPU
	slotClients  = 64
	slotClaims   = 1000 // of one round: the rounds together take half of the slots
	slotLeast    = 500.0
	explainNodes = 10_000
	explainMost  = 50.0 // ms
	explained    = "h100-sxm-baremetal-8g"
)

// placement measures claims of GPUs, and how long it takes to say why nodes have a SKU or not.
func (m *bench) placement(t *table) {
	m.claims(t)
	m.explains(t)
}

// claims has many clients claim one GPU each, again and again, and counts what is wrong afterwards.
func (m *bench) claims(t *table) {
	g := m.openPlaced("slots", slotNodes)
	defer g.stop()
	c := claims{bench: m, g: g, gpus: map[string]string{}}
	rates := inTurn(func() float64 { return m.atOnce(c.claim) }, func() float64 { return m.atOnce(c.write) })
	t.floor(fmt.Sprintf("claims per second, %d slots, %d clients", slotNodes*pageGPUs, slotClients), "/s", median(rates.ours), slotLeast,
		amount(median(rates.theirs))+"/s plain writes of one row", "HTTP and the audit of the request, which are those of any request")
	t.bound("wrong ones of them", "", float64(c.wrong()), 0, fmt.Sprintf("%d claims", benchRounds*slotClaims), "")
}

// openPlaced opens a gateway in this process that knows nodes with evidence and approved slots, which are online.
func (m *bench) openPlaced(name string, nodes int) *running {
	m.Helper()
	dir := filepath.Join(m.dir, name)
	m.seed(dir, nodes)
	m.seedSlots(dir, nodes)
	g := m.openRead(dir)
	beats := make([]view.Sample, nodes) // without readings: each would have to show the GPUs of its node
	for i := range beats {
		beats[i] = view.Sample{NodeID: seededID(i), At: time.Now(), Interval: pagePace * time.Second}
	}
	g.overview.Take(m.Context(), beats)
	return g
}

// openRead opens a gateway in this process, and waits until it knows its nodes.
func (m *bench) openRead(dir string) *running {
	m.Helper()
	g := m.open(dir)
	for deadline := time.Now().Add(pageTries); !g.overview.Ready(); time.Sleep(startPause) {
		if time.Now().After(deadline) {
			m.Fatal("the fleet is not read")
		}
	}
	return g
}

// seedSlots gives each node a profile, evidence, and slots that a rule has approved.
func (m *bench) seedSlots(dir string, nodes int) {
	m.Helper()
	g := m.open(dir)
	defer g.stop()
	p, _ := profile.Find(api.ProfileContainer)
	db := slots.New(g.store.Records())
	for i := range nodes {
		id := seededID(i)
		seen := seededEvidence(i)
		body, err := json.Marshal(seen)
		m.must(err)
		e := slots.Evidence{Task: wire.NewTaskID(), NodeID: id, Profile: p.Name, Digest: slot.Digest(seen.Facts), At: time.Now(), Ready: true,
			Current: true, Body: string(body)}
		var proposed []slots.Proposal
		for _, one := range slot.Propose(id, p, seen.Facts) {
			next := slots.Proposal{ID: one.ID, Shape: one.Shape, Model: one.Model, Rule: "rule:bench"}
			for _, u := range one.Units {
				next.Units = append(next.Units, slots.Unit{Key: u.Key, UUID: u.UUID})
			}
			proposed = append(proposed, next)
		}
		m.must(db.Assign(m.Context(), slots.Assignment{NodeID: id, To: p.Name}))
		m.must(db.PutEvidence(m.Context(), e, proposed))
	}
}

// seededEvidence is that of a rented box, whose GPUs are of another model on every second one.
func seededEvidence(i int) wire.Evidence {
	e := wire.Evidence{BootID: "boot", At: time.Now(), Facts: wire.Facts{Contained: true}}
	for g := range pageGPUs {
		e.Facts.Accelerators = append(e.Facts.Accelerators, wire.AcceleratorID{UUID: fmt.Sprintf("GPU-%08x-0000-4000-8000-%012x", g, i),
			Address: fmt.Sprintf("0000:%02x:00.0", g+1), Name: []string{"NVIDIA H100 80GB HBM3", "NVIDIA H200"}[i%2], MemoryMiB: new(int64(81559))})
	}
	for _, name := range wire.HostChecks() {
		e.Checks = append(e.Checks, wire.Check{Name: name, State: wire.CheckOK, Saw: "as it should be"})
	}
	return e
}

// atOnce has many clients do slotClaims things together, and gives their rate.
func (m *bench) atOnce(do func(i int)) float64 {
	var next atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for range slotClients {
		clients.Go(func() {
			for i := next.Add(1); i <= slotClaims; i = next.Add(1) {
				do(int(i))
			}
		})
	}
	clients.Wait()
	return slotClaims / time.Since(began).Seconds()
}

// claims are what clients got: an allocation by GPU.
type claims struct {
	*bench
	g    *running
	mu   sync.Mutex
	gpus map[string]string
	bad  int // GPUs that somebody else had already got, and claims that did not give one GPU
}

func (c *claims) claim(i int) {
	who := placement.Caller{Account: "operator:socket", Tenant: store.DefaultTenant, By: store.Actor{Name: "operator:socket"}}
	q := api.NewAllocation{Wish: api.Wish{GPU: []string{"h100", "h200"}[i%2]}}
	a, _, err := c.g.placement.Allocate(c.Context(), who, q, func(string) error { return nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || len(a.Slots) != 1 || len(a.Slots[0].GPUs) != 1 || c.gpus[a.Slots[0].GPUs[0]] != "" {
		c.Logf("a claim gave %+v, %v", a.Slots, err)
		c.bad++
		return
	}
	c.gpus[a.Slots[0].GPUs[0]] = a.ID
}

func (c *claims) write(i int) {
	c.must(slots.New(c.g.store.Records()).SetQuota(c.Context(), fmt.Sprint("bench-", i), new(int64(i)), time.Now(), "bench"))
}

// wrong counts what the clients, the database and the service say differently of who has which GPU.
func (c *claims) wrong() int {
	c.Helper()
	held, err := slots.New(c.g.store.Records()).Holds(store.Fresh(context.Background()), nil)
	c.must(err)
	bad := c.bad + max(len(c.gpus)-len(held), 0)
	for _, h := range held {
		if c.gpus[h.UUID] != h.Allocation {
			bad++
		}
	}
	known, err := c.g.placement.Slots(c.Context(), "", api.SlotFilter{})
	c.must(err)
	for _, one := range known.Slots {
		if one.Shape == api.ShapeGPU && one.Allocation != c.gpus[one.Units[0].UUID] {
			bad++
		}
	}
	return bad
}

// explains measures the answer of sku explain beside a list of the same nodes, both over the socket.
func (m *bench) explains(t *table) {
	g := m.openPlaced("skus", explainNodes)
	defer g.stop()
	operator, err := client.Dial(m.Context(), client.Target{DataDir: filepath.Join(m.dir, "skus")})
	m.must(err)
	path := strings.Replace(api.PathSKU, "{sku}", explained, 1)
	took := inTurn(func() float64 {
		return millis(func() {
			e, err := client.Get[api.SKUExplained](m.Context(), operator, path, nil)
			if m.must(err); e.Nodes != explainNodes/2 || e.Free != explainNodes/2 {
				m.Fatalf("explained: %d nodes, %d free", e.Nodes, e.Free)
			}
		})
	}, func() float64 {
		return millis(func() {
			for cursor, more := "", true; more; more = cursor != "" {
				page, err := client.Get[api.NodeRows](m.Context(), operator, api.PathNodes, api.NodeFilter{Limit: 1000, Cursor: cursor})
				m.must(err)
				cursor = page.Next
			}
		})
	})
	t.bound(fmt.Sprintf("sku explain, %d nodes, over the socket", explainNodes), " ms", median(took.ours), explainMost,
		amount(median(took.theirs))+" ms to list them", "the command line's own start")
}

// millis is how long something takes.
func millis(do func()) float64 {
	began := time.Now()
	do()
	return float64(time.Since(began)) / float64(time.Millisecond)
}
