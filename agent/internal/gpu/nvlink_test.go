package gpu_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

const linked = `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-1111-2222-3333-444444444444)
	 Link 0: 26.562 GB/s
	 Link 1: <inactive>
	 Link 2: 26.562 GB/s
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-00000001-1111-2222-3333-444444444444)
NVML: Unable to retrieve NVLink information as all links are inActive
`

func links(l *wire.NVLinks) string {
	if l == nil {
		return "none"
	}
	return show(l.Down) + " of " + show(l.Total)
}

func TestParseNVLinks(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"some down", linked, "[GPU-00000000-1111-2222-3333-444444444444: 1 of 3]"},
		{"all up", "GPU 0: x (UUID: a)\nLink 0: 50 GB/s\n Link 1: 50 GB/s\n", "[a: 0 of 2]"},
		{"all down", "GPU 0: x (UUID: a)\nLink 0: <inactive>\n Link 1: <inactive>\n", "[a: 2 of 2]"},
		{"a state that nobody knows", "GPU 0: x (UUID: a)\nLink 0: asleep\n Link 1: <inactive>\n", "[a: null of 2]"},
		{"abilities", "GPU 0: x (UUID: a)\nLink 0, P2P is supported: true\nLink x: 5 GB/s\nLink 1\n", "[]"},
		{"no UUID", "GPU 0: x\nLink 0: 50 GB/s\n", "[]"},
		{"links without a GPU", "Link 0: 50 GB/s\n", "[]"},
		{"too many", "GPU 0: x (UUID: a)\n" + strings.Repeat("Link 0: 50 GB/s\n", 1000), "[a: 0 of 64]"},
		{"without an end", strings.Repeat("GPU 0: x\n", 100_000) + "GPU 0: x (UUID: a)\nLink 0: 50 GB/s\n", "[]"},
		{"nothing", "", "[]"},
	} {
		all := gpu.ParseNVLinks([]byte(test.text))
		got := []string{}
		for _, uuid := range slices.Sorted(maps.Keys(all)) {
			got = append(got, uuid+": "+links(all[uuid]))
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%s: got %v, want %s", test.name, got, test.want)
		}
	}
}

// Links are looked at with the other rare looks. If there are none, that is asked once in an hour.
func TestNVLinksAreRare(t *testing.T) {
	m := newMachine(h100(0), h100(1))
	p, c := prober(t, m)
	hour := func() (asked int) {
		before := m.count("nvlink")
		for range 120 {
			p.Probe(t.Context())
			c.advance(30 * time.Second)
		}
		return m.count("nvlink") - before
	}
	if n := hour(); n != 1 {
		t.Errorf("asked %d times in an hour about links that are not there", n)
	}
	m.change(func(m *machine) { m.links.Stdout = []byte(linked) })
	if n := hour(); n != 12 {
		t.Errorf("asked %d times in an hour", n)
	}
	if gpus := p.Reading().GPUs; links(gpus[0].NVLinks) != "1 of 3" || gpus[1].NVLinks != nil {
		t.Errorf("got %s and %s", links(gpus[0].NVLinks), links(gpus[1].NVLinks))
	}
	m.change(func(m *machine) { m.links = gpu.Output{Code: 255} })
	hour()
	if gpus := p.Reading().GPUs; gpus[0].NVLinks != nil {
		t.Errorf("after a failure: %s", links(gpus[0].NVLinks))
	}
}

func FuzzNVLinks(f *testing.F) {
	f.Add([]byte(linked))
	f.Add([]byte("GPU 0: x (UUID: \x1b[2J)\nLink 0: <inactive>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for uuid, l := range gpu.ParseNVLinks(text) {
			if uuid == "" || strings.ContainsAny(uuid, "\x1b\n") || *l.Total < 1 || *l.Total > 64 || l.Down != nil && *l.Down > *l.Total {
				t.Errorf("%q: %q has %s", text, uuid, links(l))
			}
		}
	})
}
