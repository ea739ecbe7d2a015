package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/logfile"
	"muster/agent/wire"
)

func newOutput(t testing.TB, most int64) (*output, Output) {
	dir := t.TempDir()
	return &output{folder: dir, most: most, now: func() time.Time { return time.Unix(1000, 0) }}, Output{Path: filepath.Join(dir, outputFile)}
}

func kept(t testing.TB, o Output) string {
	var out bytes.Buffer
	if _, err := o.Tail(1_000_000, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestLines: lines end with a line feed, a carriage return or both, however the bytes come.
func TestLines(t *testing.T) {
	const text = "one\r\ntwo\n\nthree\rfour\r\r\n\r\nlast"
	const want = "one\ntwo\n\nthree\nfour\n\nlast\n"
	for step := 1; step < len(text); step++ {
		o, read := newOutput(t, 0)
		for rest := []byte(text); len(rest) > 0; rest = rest[min(step, len(rest)):] {
			if _, err := o.Write(rest[:min(step, len(rest))]); err != nil {
				t.Fatal(err)
			}
		}
		o.close()
		if got := kept(t, read); got != want {
			t.Fatalf("in pieces of %d: %q", step, got)
		}
	}
}

// TestFlood: a program that prints without end keeps its last lines, within the bound, and how many are gone is told.
func TestFlood(t *testing.T) {
	const most = 8 << 10
	o, read := newOutput(t, most)
	const lines = 5000
	for i := range lines {
		_, _ = o.Write([]byte(strings.Repeat("x", i%50) + "\n"))
	}
	_, _ = o.Write([]byte("the end"))
	o.close()
	size := int64(0)
	for _, path := range []string{read.Path, logfile.Older(read.Path)} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	got := kept(t, read)
	if size > 2*most || !strings.HasSuffix(got, "the end\n") {
		t.Errorf("%d bytes; it ends with %q", size, got[max(len(got)-20, 0):])
	}
	if told, _ := os.ReadFile(filepath.Join(o.folder, cutFile)); int(o.lost) != lines+1-strings.Count(got, "\n") || len(told) == 0 {
		t.Errorf("%d lines are lost, told %q; kept are %d of %d", o.lost, told, strings.Count(got, "\n"), lines+1)
	}
}

// TestFullDisk: a disk that takes nothing costs lines, which are counted, and nothing else.
func TestFullDisk(t *testing.T) {
	o, _ := newOutput(t, 0)
	o.folder = filepath.Join(o.folder, "gone")
	if n, err := o.Write([]byte("a\nb\n")); n != 4 || err != nil || o.lost != 2 {
		t.Errorf("%d, %v, %d lost", n, err, o.lost)
	}
	o.close()
}

// FuzzOutput: no bytes of a program spoil the file, and lines stay lines.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("a\nb\r\nc"))
	f.Add([]byte("\xff\x00\"}\n{"))
	f.Add(bytes.Repeat([]byte("y"), 3*mostLine+7))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, read := newOutput(t, 0)
		_, _ = o.Write(data)
		o.close()
		raw, _ := os.ReadFile(read.Path)
		for line := range bytes.Lines(raw) {
			if _, err := logfile.Parse(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		if o.lost != 0 || int(o.lines) != bytes.Count(raw, []byte("\n")) {
			t.Errorf("%d lines, %d lost, and the file has %d", o.lines, o.lost, bytes.Count(raw, []byte("\n")))
		}
	})
}

func number[T any](n T) *T { return &n }

// TestInUse: each thing that speaks against a GPU is named, and what is not known does not count as free.
func TestInUse(t *testing.T) {
	free := func() wire.GPU {
		return wire.GPU{UUID: "GPU-1", MemoryUsedMiB: number(int64(500)), MemoryTotalMiB: number(int64(81559)), UtilizationPercent: number(0.0),
			Processes: &wire.Processes{Count: number(0)}}
	}
	for want, change := range map[string]func(*wire.GPU){
		"":                            func(*wire.GPU) {},
		"it does not tell its UUID":   func(g *wire.GPU) { g.UUID = "" },
		"reset":                       func(g *wire.GPU) { g.Health = []string{"reset"} },
		"it is divided":               func(g *wire.GPU) { g.MIG = number(true) },
		"2 processes use it":          func(g *wire.GPU) { g.Processes.Count = number(2) },
		"it is 40% busy":              func(g *wire.GPU) { g.UtilizationPercent = number(40.0) },
		"9000 MiB of its memory":      func(g *wire.GPU) { g.MemoryUsedMiB = number(int64(9000)) },
		"it does not tell whether":    func(g *wire.GPU) { g.MemoryUsedMiB = nil; g.Processes = nil },
		"it does not tell whether it": func(g *wire.GPU) { g.MemorySource = wire.MemoryUnified; g.Processes = nil },
	} {
		g := free()
		change(&g)
		if got := inUse(g, nil); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, gpus := range [][]string{{"GPU-1"}, {wire.AllGPUs}} {
		if got := inUse(free(), []Holder{{"the container llm", gpus}}); got != "the container llm has it" {
			t.Errorf("%q", got)
		}
	}
	amd := []wire.GPU{{UUID: "GPU-1", Vendor: wire.VendorAMD}}
	if got := visible([]string{"GPU-1"}, amd); len(got) != 1 || got[0] != "ROCR_VISIBLE_DEVICES=GPU-1" {
		t.Errorf("%q", got)
	}
	if got := visible([]string{wire.AllGPUs}, amd); got != nil {
		t.Errorf("%q", got)
	}
}

// TestFloodNotAside: the bound holds also if the full file cannot be put aside, and its lines count as lost.
func TestFloodNotAside(t *testing.T) {
	const most, lines = 4 << 10, 1000
	o, read := newOutput(t, most)
	if err := os.MkdirAll(filepath.Join(logfile.Older(read.Path), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range lines {
		_, _ = o.Write([]byte("line\n"))
	}
	o.close()
	info, err := os.Stat(read.Path)
	if err != nil || info.Size() > most || o.lost+o.lines != lines || o.lost == 0 {
		t.Errorf("%v, %v; %d lines lost, %d kept", info.Size(), err, o.lost, o.lines)
	}
	again := &output{folder: o.folder, most: most, now: o.now}
	if err := again.open(); err != nil || again.size != info.Size() {
		t.Errorf("opened anew: %d bytes, %v", again.size, err)
	}
	again.file.Close()
}

// TestDropOlder: the older half of the output makes room, its lines are counted, and the newer half goes on.
func TestDropOlder(t *testing.T) {
	o, read := newOutput(t, 1<<10)
	if o.dropOlder() {
		t.Error("there was none to drop")
	}
	for range 2 * 1 << 10 / 64 {
		_, _ = o.Write([]byte("a line\n"))
	}
	all := strings.Count(kept(t, read), "\n")
	if !o.dropOlder() || o.dropOlder() {
		t.Error("it was not dropped, or twice")
	}
	_, _ = o.Write([]byte("last\n"))
	o.close()
	text := kept(t, read)
	if left := strings.Count(text, "\n"); left == 0 || left >= all || !strings.HasSuffix(text, "last\n") || o.lost == 0 ||
		o.lost+int64(left) != 33 {
		t.Errorf("%d of %d lines are left, %d lost", strings.Count(text, "\n"), all, o.lost)
	}
	if raw, err := os.ReadFile(filepath.Join(o.folder, cutFile)); err != nil || string(raw) == "0" {
		t.Errorf("%q, %v", raw, err)
	}
}
