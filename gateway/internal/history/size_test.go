package history_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/history"
	store "muster/store/history"
)

// workload makes samples of a node whose GPUs work on jobs that come and go, with the noise that such values have.
type workload struct {
	random *rand.Rand
	load   []float64 // of each GPU
}

func newWorkload(seed uint64, gpus int) *workload {
	return &workload{rand.New(rand.NewPCG(seed, 7)), make([]float64, gpus)}
}

func (w *workload) noise(spread float64) int64 { return int64(w.random.NormFloat64() * spread) }

func (w *workload) sample(at time.Time) store.Sample {
	s := store.Sample{At: at.UnixMilli() + w.random.Int64N(3000), Interval: 30 * time.Second, Node: [store.NodeMetrics]int64{
		1200 + w.noise(80), 214_000 + w.noise(400), 900_000 + at.Unix()/600%5000, 9_200 + w.noise(40), 38 + w.noise(6), 620 + w.noise(60)}}
	for i := range w.load {
		if w.random.IntN(240) == 0 { // a job begins or ends every two hours
			w.load[i] = 100 * float64(w.random.IntN(2))
		}
		util := min(1000, max(0, int64(w.load[i]*9.3)+w.noise(40)/10*10))
		s.GPUs = append(s.GPUs, store.GPUSample{GPU: i + 1, Values: [store.GPUMetrics]int64{
			util, int64(1200+w.load[i]*700) + w.noise(60), int64(350+w.load[i]*3) + w.noise(10)/10*10,
			int64(800+w.load[i]*55) + w.noise(120), 1980 - w.noise(30)/15*15}})
	}
	return s
}

// fill writes what one node says from a moment on, and rolls it up.
func fill(t testing.TB, f *store.File, w *workload, node int64, from time.Time, span time.Duration) {
	t.Helper()
	for hour := from; hour.Before(from.Add(span)); hour = hour.Add(time.Hour) {
		minutes := make([]store.Minute, 60)
		for i := range minutes {
			at := hour.Add(time.Duration(i) * time.Minute)
			minutes[i] = store.Minute{Node: node, Start: store.Raw.Number(at),
				Samples: []store.Sample{w.sample(at), w.sample(at.Add(30 * time.Second))}}
		}
		must(t, f.Keep(t.Context(), minutes))
		must(t, f.RollUp(t.Context(), store.Due{Hour: store.Minutes.Number(hour), Node: node, Writes: 60}))
	}
}

// sizes are bytes that a node with 8 GPUs takes in each tier, for each hour.
type sizes map[store.Tier]float64

// measure drops one tier after the other and sees how much room each had.
func measure(t testing.TB, f *store.File, nodeHours float64) sizes {
	t.Helper()
	all := sizes{}
	used := func() float64 {
		s, err := f.Size(t.Context())
		must(t, err)
		return float64(s.File - s.Free)
	}
	for _, tier := range []store.Tier{store.Raw, store.Minutes, store.Hours} {
		before := used()
		for n := int64(1); n > 0; {
			var err error
			n, err = f.Drop(t.Context(), tier, time.Unix(1<<40, 0), 10_000, true)
			must(t, err)
		}
		all[tier] = (before - used()) / nodeHours
	}
	return all
}

// total is how large a file gets where the bound leaves room for all that is kept.
func (s sizes) total(nodes float64) float64 {
	sum := 0.0
	for tier, bytes := range s {
		sum += bytes * min(history.KeepFor(tier).Hours(), 365*24) * nodes
	}
	return sum
}

var tableRow = regexp.MustCompile(`(?m)^\| ([0-9,]+) nodes? [^|]*\| ([0-9.]+) (MB|GB) \|`)

// TestSizes: the sizes that the help states are those that a file gets.
func TestSizes(t *testing.T) {
	f, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), noon)
	must(t, err)
	defer f.Close()
	const nodes, days = 2, 3
	for node := range int64(nodes) {
		fill(t, f, newWorkload(uint64(node), 8), node+1, noon().Truncate(24*time.Hour), days*24*time.Hour)
	}
	s := measure(t, f, nodes*days*24)
	t.Logf("bytes an hour of a node: samples %.0f, minutes %.0f, hours %.0f", s[store.Raw], s[store.Minutes], s[store.Hours])
	rows := tableRow.FindAllStringSubmatch(help.Text("history"), -1)
	if len(rows) < 3 {
		t.Fatalf("the page history has %d rows with sizes", len(rows))
	}
	for _, row := range rows {
		count, err := strconv.ParseFloat(regexp.MustCompile(",").ReplaceAllString(row[1], ""), 64)
		must(t, err)
		said, err := strconv.ParseFloat(row[2], 64)
		must(t, err)
		said *= map[string]float64{"MB": 1e6, "GB": 1e9}[row[3]]
		if got := s.total(count); got > said || got < said*0.7 {
			t.Errorf("%v nodes take %s, the page says %s %s", count, megabytes(got), row[2], row[3])
		}
	}
}

func megabytes(n float64) string { return fmt.Sprintf("%.0f MB", n/1e6) }
