package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/view"
	"muster/store"
)

const (
	pageNodes  = 10_000
	pageGPUs   = 8
	pageSent   = 2.0             // MB
	pageAlive  = 300.0           // KB/s
	pagePace   = 30              // seconds between two heartbeats
	pageWatch  = pagePace        // seconds: each node reports once
	pageAtOnce = "500"           // nodes of one answer, as the page's script asks for
	pageTries  = 2 * time.Minute // until the fleet is read
)

// page measures what the fleet's page of the console gets: what is sent until all is there, and what live values take after that.
func (m *bench) page(t *table) {
	dir := filepath.Join(m.dir, "page")
	m.seed(dir, pageNodes)
	g := m.openRead(dir)
	defer g.stop()
	beats := newPageBeats(m)
	beats.send(g, pageNodes)
	beats.send(g, pageNodes) // from the second on a heartbeat changes values alone
	browser := m.newBrowser(g)
	browser.openFleet()
	sent := float64(browser.got.Load()) / 1e6
	without := "what a browser keeps of an earlier visit, ids of nodes that are 18 random bytes longer, and findings"
	t.bound(fmt.Sprintf("fleet page, %d nodes with %d GPUs, sent", pageNodes, pageGPUs), " MB", sent, pageSent, "-", without)
	ctx, leave := context.WithCancel(m.Context())
	defer leave()
	stream := browser.ask(ctx, "/ui/api/stream?kinds=brief")
	go func() { _, _ = io.Copy(io.Discard, stream) }()
	before := browser.got.Load()
	for range pageWatch {
		beats.send(g, pageNodes/pagePace)
		time.Sleep(time.Second)
	}
	alive := float64(browser.got.Load()-before) / pageWatch / 1e3
	t.bound(fmt.Sprintf("live values of it, a heartbeat every %d s", pagePace), " KB/s", alive, pageAlive, "-", "ids that are longer")
}

// pageBeats are heartbeats whose values are other ones each time.
type pageBeats struct {
	reading wire.Hardware
	random  *rand.Rand
	next    int
}

func newPageBeats(m *bench) *pageBeats {
	b := &pageBeats{random: rand.New(rand.NewPCG(1, 2))}
	b.reading = *m.historyReading()
	return b
}

func (b *pageBeats) send(g *running, n int) {
	now := time.Now()
	samples := make([]view.Sample, n)
	for i := range samples {
		h := b.reading
		h.Probe.SampledAt = &now
		h.GPUs = make([]wire.GPU, pageGPUs)
		for j := range h.GPUs {
			h.GPUs[j] = b.gpu(j)
		}
		samples[i] = view.Sample{NodeID: fmt.Sprintf("n-seed-%06d", b.next%pageNodes), At: now, Interval: pagePace * time.Second, Hardware: &h,
			Agent: &wire.AgentInfo{Version: "v1"}}
		b.next++
	}
	g.overview.Take(context.Background(), samples)
}

// gpu has values as nvidia-smi gives them: power with two digits after the point.
func (b *pageBeats) gpu(i int) wire.GPU {
	gpu := b.reading.GPUs[i]
	use, celsius := float64(1+b.random.IntN(100)), float64(30+b.random.IntN(50))
	watts := float64(7000+b.random.IntN(63000)) / 100
	used := b.random.Int64N(*gpu.MemoryTotalMiB)
	gpu.UtilizationPercent = &use
	gpu.TemperatureCelsius = &celsius
	gpu.PowerWatts = &watts
	gpu.MemoryUsedMiB = &used
	return gpu
}

// browser asks as a browser does, and counts what comes over its connections, TLS included.
type browser struct {
	*bench
	url, cookie string
	http        http.Client
	got         atomic.Int64
}

func (m *bench) newBrowser(g *running) *browser {
	who := store.Account{ID: "msa_page", Name: "visitor", Scopes: []string{api.ScopeAll}, CreatedAt: time.Now()}
	m.must(g.store.CreateAccount(m.Context(), who))
	cookie, err := g.logins.Begin(m.Context(), who, login.Visitor{})
	m.must(err)
	b := &browser{bench: m, url: "https://" + g.tls.Addr().String(), cookie: cookie}
	b.http.Transport = &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return countedConn{conn, &b.got}, err
		}}
	return b
}

type countedConn struct {
	net.Conn
	got *atomic.Int64
}

func (c countedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.got.Add(int64(n))
	return n, err
}

// openFleet asks for all that the page asks for.
func (b *browser) openFleet() {
	b.Helper()
	html, err := io.ReadAll(b.ask(b.Context(), "/ui/fleet"))
	b.must(err)
	files := map[string]bool{}
	for _, file := range regexp.MustCompile(`/ui/assets/[a-z.]+`).FindAllString(string(html), -1) {
		if !files[file] {
			files[file] = true
			_, _ = io.Copy(io.Discard, b.ask(b.Context(), file))
		}
	}
	b.Logf("the page itself is %d bytes, with %d files", len(html), len(files))
	cursor := ""
	for more := true; more; more = cursor != "" {
		var view api.FleetView
		b.must(json.NewDecoder(b.ask(b.Context(), "/ui/api/fleet?brief=true&limit="+pageAtOnce+"&cursor="+cursor)).Decode(&view))
		cursor = view.Next
		b.Logf("%d bytes so far", b.got.Load())
	}
}

// ask gives the body as the page has it.
func (b *browser) ask(ctx context.Context, path string) io.Reader {
	b.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", b.url+path, nil)
	b.must(err)
	r.Header.Set("Accept-Encoding", "gzip")
	r.AddCookie(&http.Cookie{Name: "__Host-muster", Value: b.cookie})
	answer, err := b.http.Do(r)
	b.must(err)
	b.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s", path, answer.Status)
	}
	if cmp.Or(answer.Header.Get("Content-Encoding"), "none") == "none" {
		return answer.Body
	}
	plain, err := gzip.NewReader(answer.Body)
	b.must(err)
	return plain
}
