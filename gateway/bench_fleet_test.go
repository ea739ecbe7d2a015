package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/store"
)

const (
	fleetSize  = 100_000
	smallFleet = 100
	// Nonces are kept for two windows of a minute: at one heartbeat in 30 s, four or five of a node are in memory. Every
	// node sends one; a tenth of them send four more, which tells what each further one costs.
	nonceSample = fleetSize / 10
	moreNonces  = 4
	samePage    = 1.25 // what still counts as as fast
)

// fleet measures start, memory and the first page of the node list with many nodes on record.
func (m *bench) fleet(r *benchReport) {
	keep := filepath.Join(m.dir, "fleet.json")
	big, small := filepath.Join(m.dir, "big"), filepath.Join(m.dir, "small")
	m.seed(small, smallFleet, "")
	started := time.Now()
	m.seed(big, fleetSize, keep)
	fmt.Fprintf(os.Stderr, "seeded %d nodes in %.1f s\n", fleetSize, time.Since(started).Seconds())
	starts := inTurn(func() float64 { return m.startTime(big) }, func() float64 { return m.startTime(small) })
	r.bound("gateway start to ready, 100,000 nodes", " s", median(starts.ours), 2, fmt.Sprintf("%s s with %d nodes", amount(median(starts.theirs)), smallFleet))
	g := m.open(big)
	m.memory(r, g, keep)
	h := m.open(small)
	pages := inTurn(func() float64 { return m.firstPage(g) }, func() float64 { return m.firstPage(h) })
	r.add("node ls, first page, 100,000 nodes", " ms", pages, fmt.Sprintf("%d nodes", smallFleet), samePage, false)
	g.stop()
	h.stop()
}

// seed fills a new gateway's database with nodes that are enrolled, active and were heard from. They share one key; their
// identities go to keep, for the swarm.
func (m *bench) seed(dir string, nodes int, keep string) {
	m.Helper()
	g := m.open(dir)
	defer g.stop()
	_, psk, err := g.bootstrap.GeneratePSK(m.Context(), store.Actor{Name: "bench"})
	m.must(err)
	key := m.newKey()
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	m.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	m.must(err)
	type identity struct {
		Name  string `json:"name"`
		ID    string `json:"id"`
		Key   []byte `json:"key"`
		Chain string `json:"certificate"`
	}
	kept := make([]identity, nodes)
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
				kept[i] = identity{e.Node.Name, e.Node.ID, private, e.Certificate.Chain}
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
	m.seedBeats(g, nodes)
	if keep == "" {
		return
	}
	text, err := json.Marshal(map[string]any{"roots": g.authority.RootPEM(), "answer_key": sign.EncodeKey(answerKeyOf(g)), "nodes": kept})
	m.must(err)
	m.must(os.WriteFile(keep, text, 0o600))
}

// seeded is one node. What stands for its certificate is bytes that name it: the record decides, and it only signs.
func seeded(i int, psk string, public []byte, issuer string) store.Enrolment {
	name := fmt.Sprintf("seed-%06d", i)
	leaf := []byte("certificate of " + name)
	sum, now := sha256.Sum256(leaf), time.Now()
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

func (m *bench) seedBeats(g *running, nodes int) {
	m.Helper()
	const batch = 500
	for first := 0; first < nodes; first += batch {
		beats := make([]store.Beat, 0, batch)
		for i := first; i < min(first+batch, nodes); i++ {
			beats = append(beats, store.Beat{
				NodeID: fmt.Sprintf("n-seed-%06d", i), At: time.Now(), RunID: "0123456789abcdef", Counter: 1, Interval: 30 * time.Second,
				Address: "127.0.0.1", Agent: `{"version":"v1","os":"linux","arch":"amd64"}`, Cost: `{"rss_kib":6400,"cpu_ms":250,"probe_ms":41}`,
				Hardware: seededHardware,
			})
		}
		m.must(g.store.SaveBeats(m.Context(), beats, time.Now()))
	}
}

const seededHardware = `{"probe":{"state":"ok","since":"2026-11-21T12:00:00Z","took_ms":41,"sampled_at":"2026-11-21T12:00:00Z"},"driver_version":"550.54.15",` +
	`"gpus_expected":null,"gpus":[{"index":0,"uuid":"GPU-5ca1ab1e-0000-4000-8000-000000000000","name":"NVIDIA H100 80GB HBM3","bus_id":"00000000:01:00.0",` +
	`"memory_total_mib":81559,"memory_used_mib":39233,"memory_source":"device","utilization_percent":99,"temperature_celsius":64,"power_watts":612.5,` +
	`"power_limit_watts":700,"mig":false,"health":[]}],"cpus":16,"memory_total_mib":128000,"memory_used_mib":21500,"disk_total_mib":900000,` +
	`"disk_used_mib":120000,"load1":1.25,"kernel":"6.1.0-18-amd64","boot_time":"2026-11-20T12:00:00Z"}`

// startTime is how many seconds a gateway takes from nothing to a /readyz that says so.
func (m *bench) startTime(dir string) float64 {
	m.Helper()
	started := time.Now()
	g := m.open(dir)
	defer g.stop()
	for {
		response, err := http.Get(g.plainURL() + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return time.Since(started).Seconds()
			}
		}
		if time.Since(started) > time.Minute {
			m.Fatalf("not ready after a minute: %v", err)
		}
	}
}

// memory lets every node report and weighs what the gateway then holds. The nodes are in another process; their
// connections are gone when it is weighed.
func (m *bench) memory(r *benchReport, g *running, keep string) {
	m.Helper()
	before := heap()
	args := []string{"-gateway", g.plainURL(), "-keep", keep, "-transport", "signed", "-duration", "2m"}
	m.play(append(args, "-nodes", strconv.Itoa(fleetSize), "-beats", "1")...)
	m.must(g.fleet.Flush(m.Context()))
	one := heap()
	m.play(append(args, "-nodes", strconv.Itoa(nonceSample), "-beats", strconv.Itoa(moreNonces))...)
	m.must(g.fleet.Flush(m.Context()))
	more := heap()
	nonce := max(more-one, 0) / (nonceSample * moreNonces)
	each := (one-before)/fleetSize + nonce*moreNonces
	const budget = 8 << 10
	r.bound("gateway memory a node, 100,000 nodes", " B", each, budget,
		fmt.Sprintf("one heartbeat %.0f B, each nonce more %.0f B", (one-before)/fleetSize, nonce))
}

// heap is what the Go heap holds after a collection, in bytes.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapInuse)
}

// firstPage is how many milliseconds the first page of nodes takes over the socket, the median of many.
func (m *bench) firstPage(g *running) float64 {
	m.Helper()
	socket := filepath.Join(g.settings.data, client.SocketName)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	socketClient := &http.Client{Transport: transport}
	var took []float64
	for range 30 {
		started := time.Now()
		response, err := socketClient.Get("http://muster" + wire.PrefixAdmin + "nodes?limit=100")
		m.must(err)
		page, err := io.ReadAll(response.Body)
		response.Body.Close()
		if took = append(took, float64(time.Since(started))/float64(time.Millisecond)); response.StatusCode != http.StatusOK {
			err = errors.New(string(page))
		}
		m.must(err)
	}
	return median(took)
}
