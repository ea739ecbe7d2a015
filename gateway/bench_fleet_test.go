package main

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/store"
)

const (
	fleetSize  = 100_000
	smallFleet = 100
	samePage   = 1.25 // a ratio up to this counts as "as fast"
	onePage    = 100  // nodes of the page
	pages      = 30   // of one round
)

// fleet measures start and the first page of the node list with many nodes on record.
func (m *bench) fleet(t *table) {
	big := filepath.Join(m.dir, "big")
	small := filepath.Join(m.dir, "small")
	m.seed(small, smallFleet)
	m.seed(big, fleetSize)
	starts := inTurn(func() float64 { return m.startTime(big) }, func() float64 { return m.startTime(small) })
	t.bound("gateway start, exec to ready, 100,000 nodes", " s", median(starts.ours), 2,
		fmt.Sprintf("%s s with %d nodes", amount(median(starts.theirs)), smallFleet), "a disk that has to be read: the file is in memory")
	g := m.serve(big)
	h := m.serve(small)
	pages := inTurn(func() float64 { return m.firstPage(g) }, func() float64 { return m.firstPage(h) })
	t.compare("node ls, first page, 100,000 nodes", " ms", pages, fmt.Sprintf("%d nodes", smallFleet), limit{most: samePage},
		"the command line's own start; it is the request on the socket")
	g.end()
	h.end()
}

func (m *bench) startTime(data string) float64 {
	g := m.serve(data)
	defer g.end()
	return g.ready.Seconds()
}

// seed fills a new gateway's database with nodes that are enrolled, active and were heard from. They share one key.
func (m *bench) seed(dir string, nodes int) {
	m.Helper()
	g := m.open(dir)
	defer g.stop()
	m.enrolSeeds(g, nodes)
	m.seedBeats(g, nodes)
}

// enrolSeeds enrols nodes that share one key.
func (m *bench) enrolSeeds(g *running, nodes int) {
	m.Helper()
	_, psk, err := g.bootstrap.GeneratePSK(m.Context(), store.Actor{Name: "bench"})
	m.must(err)
	key := m.newKey()
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	m.must(err)
	var next atomic.Int64
	failed := make(chan error, 256)
	for range cap(failed) { // the store writes what waits together in one commit
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= nodes {
					failed <- nil
					return
				}
				e := seeded(i, psk, public, g.authority.RootPEM())
				if err := g.store.Enrol(m.Context(), e); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for range cap(failed) {
		m.must(<-failed)
	}
}

// seeded is one node. Its certificate is only bytes that name it: no such node ever calls, so nothing checks them.
func seeded(i int, psk string, public []byte, issuer string) store.Enrolment {
	name := fmt.Sprintf("seed-%06d", i)
	leaf := []byte("certificate of " + name)
	sum := sha256.Sum256(leaf)
	now := time.Now()
	chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf})) + issuer
	return store.Enrolment{
		ID: "e-" + name, Credential: psk, KeyHash: hex.EncodeToString(sum[:]), At: now, NewNode: true,
		Node:        store.Node{ID: "n-" + name, Name: name, Tenant: "default", State: "active"},
		AgentLabels: map[string]string{"tier": "sovereign", "zone": strconv.Itoa(i % 7)},
		Certificate: store.Certificate{
			Fingerprint: hex.EncodeToString(sum[:]), PublicKey: public, Chain: chain,
			NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour), IssuedAt: now, FirstUsedAt: &now,
		},
	}
}

func seededID(i int) string { return fmt.Sprintf("n-seed-%06d", i) }

func (m *bench) seedBeats(g *running, nodes int) {
	m.Helper()
	const batch = 500
	for first := 0; first < nodes; first += batch {
		beats := make([]store.Beat, 0, batch)
		for i := first; i < min(first+batch, nodes); i++ {
			beats = append(beats, store.Beat{
				NodeID: seededID(i), At: time.Now(), RunID: "0123456789abcdef", Counter: 1, Interval: 30 * time.Second,
				Address: "127.0.0.1", Agent: `{"version":"v1","os":"linux","arch":"amd64"}`,
				Cost:     `{"rss_kib":6400,"cpu_ms":250,"probe_ms":41}`,
				Hardware: seededHardware,
			})
		}
		m.must(g.store.SaveBeats(m.Context(), beats, time.Now()))
	}
}

const seededHardware = `{"probe":{"state":"ok","since":"2026-11-21T12:00:00Z","took_ms":41,"sampled_at":"2026-11-21T12:00:00Z"},` +
	`"driver_version":"550.54.15","gpus_expected":null,` +
	`"gpus":[{"index":0,"uuid":"GPU-5ca1ab1e-0000-4000-8000-000000000000","name":"NVIDIA H100 80GB HBM3",` +
	`"bus_id":"00000000:01:00.0","memory_total_mib":81559,"memory_used_mib":39233,` +
	`"memory_source":"device","utilization_percent":99,` +
	`"temperature_celsius":64,"power_watts":612.5,"power_limit_watts":700,"mig":false,"health":[]}],` +
	`"cpus":16,"memory_total_mib":128000,"memory_used_mib":21500,"disk_total_mib":900000,` +
	`"disk_used_mib":120000,"load1":1.25,"kernel":"6.1.0-18-amd64","boot_time":"2026-11-20T12:00:00Z"}`

// firstPage is how many milliseconds the first page of nodes takes over the socket, the median of some.
func (m *bench) firstPage(g *served) float64 {
	m.Helper()
	operator := m.operator(g)
	var took []float64
	for range pages {
		took = append(took, millis(func() {
			page, err := client.Get[api.NodeRows](m.Context(), operator, api.PathNodes, api.NodeFilter{Limit: onePage})
			if m.must(err); len(page.Nodes) != onePage {
				m.Fatalf("a page of %d nodes", len(page.Nodes))
			}
		}))
	}
	return median(took)
}
