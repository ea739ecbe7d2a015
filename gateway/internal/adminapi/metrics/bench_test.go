package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/reply"
)

// bigFleet has nodes with 8 GPUs each, as a large fleet says them.
func bigFleet(n int) []*api.NodeRow {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	rows := make([]*api.NodeRow, n)
	for i := range rows {
		rows[i] = fullNode(fmt.Sprintf("vast-h100-%08d", i), "platform", at)
		rows[i].State = "active"
		rows[i].StateReasons = nil
		rows[i].Findings = nil
		rows[i].IdleSince = nil
		gpu := rows[i].GPUs[0]
		gpu.Health = nil
		gpu.IdleSince = nil
		gpu.MemorySource = "device"
		rows[i].GPUs = nil
		for j := range 8 {
			gpu.Index = j
			gpu.UtilizationPercent = some(float64((i*31 + j*17) % 101))
			gpu.MemoryUsedMiB = some(int64((i*7919 + j*104729) % 81559))
			gpu.MemoryFreeMiB = some(81559 - *gpu.MemoryUsedMiB)
			gpu.PowerWatts = some(float64((i*613+j*211)%7000) / 10)
			gpu.UUID = fmt.Sprintf("GPU-5ca1ab1e-0000-4000-8000-%08d%04d", i, j)
			rows[i].GPUs = append(rows[i].GPUs, gpu)
		}
	}
	return rows
}

// counted counts bytes.
type counted struct{ bytes, lines int }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	for _, b := range p {
		if b == '\n' {
			c.lines++
		}
	}
	return len(p), nil
}

// answer is one whose bytes are counted.
type answer struct {
	*counted
	header http.Header
}

func (a answer) Header() http.Header { return a.header }

func (a answer) WriteHeader(int) {}

// BenchmarkMetrics is one answer for a fleet: with 10,000 nodes, as text and packed. help/metrics.md has its figures.
func BenchmarkMetrics(b *testing.B) {
	for _, size := range []int{100, 1_000, 10_000} {
		rows := bigFleet(size)
		handler := reply.NewPacker().Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			t := newText(w)
			writeNodes(t, rows, append(gpuFamilies(), detailFamilies()...))
			t.writeLeftOut()
			if err := t.end(); err != nil {
				b.Error(err)
			}
		}))
		for _, accept := range []string{"identity", "gzip"} {
			b.Run(fmt.Sprint(size, "/", accept), func(b *testing.B) {
				b.ReportAllocs()
				r := httptest.NewRequest(http.MethodGet, Path, nil)
				r.Header.Set("Accept-Encoding", accept)
				var out *counted
				for b.Loop() {
					out = &counted{}
					handler.ServeHTTP(answer{out, http.Header{}}, r)
				}
				b.ReportMetric(float64(out.bytes), "B/answer")
			})
		}
	}
}

// TestSize: what help/metrics.md says of the size of an answer is right to a tenth, with the details of GPUs and without.
func TestSize(t *testing.T) {
	const nodes = 100
	for _, c := range []struct { // as the page says
		families     []figure[*gpu]
		series, size int
	}{
		{append(gpuFamilies(), detailFamilies()...), 32_300, 5_300_000},
		{gpuFamilies(), 8_200, 1_200_000},
	} {
		out := &counted{}
		w := newText(out)
		writeNodes(w, bigFleet(nodes), c.families)
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		if out.lines < c.series*9/10 || out.lines > c.series*11/10 || out.bytes < c.size*9/10 || out.bytes > c.size*11/10 {
			t.Errorf("%d nodes have %d series and %d bytes", nodes, out.lines, out.bytes)
		}
	}
}
