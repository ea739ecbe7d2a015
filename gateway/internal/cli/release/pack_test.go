package release

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact/executable"
)

// write makes a file that is a program for a machine.
func write(t *testing.T, file, arch string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, executable.Least(arch, file), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFind: folders in both forms, and files whose name or head says what they are for.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	flat := filepath.Join(dir, "flat [1]")
	write(t, filepath.Join(flat, "muster-agent-linux-amd64"), "amd64")
	write(t, filepath.Join(flat, "muster-agent-linux-arm64"), "arm64")
	if err := os.WriteFile(filepath.Join(flat, "muster-agent-linux-arm64.sig"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "deep")
	write(t, filepath.Join(deep, "linux-amd64", "muster-agent"), "amd64")
	alone := write(t, filepath.Join(dir, "alone"), "arm64")
	odd := write(t, filepath.Join(dir, "odd-machine"), "s390x")
	broken := write(t, filepath.Join(dir, "broken"), "amd64")
	if err := os.Truncate(broken, 130); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		want  string // the platforms, or what the error says
	}{
		{[]string{flat}, "linux/amd64 linux/arm64"},
		{[]string{deep, alone}, "linux/amd64 linux/arm64"},
		{[]string{"linux/s390x=" + odd}, "is built for another machine"},
		{[]string{odd}, "is built for another machine"},
		{[]string{"linux/amd64=" + alone}, "is a program for linux/arm64, not for linux/amd64"},
		{[]string{"darwin/arm64=" + alone}, "not for darwin/arm64"},
		{[]string{deep, flat}, "are both for linux/amd64"},
		{[]string{broken}, "broken is cut off or damaged"},
		{[]string{text}, "is no 64-bit ELF program"},
		{[]string{empty}, "no agent in"},
		{[]string{"amd64=" + alone}, "names no platform"},
		{[]string{filepath.Join(dir, "nothing")}, "there is no file or folder"},
	} {
		programs, err := find(c.words)
		var got []string
		for _, p := range programs {
			got = append(got, p.platform())
		}
		slices.Sort(got)
		said := strings.Join(got, " ")
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, c.want) || err == nil && said != c.want {
			t.Errorf("%q: got %q, want %q", c.words, said, c.want)
		}
	}
}

// TestPackIsReproducible: the same programs in any order give the same bytes; another version or time gives others.
func TestPackIsReproducible(t *testing.T) {
	programs := func() []program {
		return []program{{system: "linux", arch: "arm64", digest: digestOf([]byte("b")), size: 1}, {system: "linux", arch: "amd64",
			digest: digestOf([]byte("a")), size: 1}}
	}
	turned := programs()
	slices.Reverse(turned)
	at := time.Unix(1, 0)
	first := pack(programs(), "0.4.0", at)
	second := pack(turned, "0.4.0", at.In(time.FixedZone("x", 3600)))
	if second.digest != first.digest || !bytes.Equal(first.index, second.index) {
		t.Errorf("got %s and %s", first.index, second.index)
	}
	if pack(programs(), "0.4.1", at).digest == first.digest || pack(programs(), "0.4.0", time.Unix(2, 0)).digest == first.digest {
		t.Error("another version or time gives the same digest")
	}
	var read document
	err := json.Unmarshal(first.index, &read)
	if err != nil || len(read.Manifests) != 2 || read.Manifests[0].Platform.Architecture != "amd64" {
		t.Fatalf("the index is %s, %v", first.index, err)
	}
	for i, p := range first.programs {
		var m document
		if err := json.Unmarshal(p.manifest, &m); err != nil || m.Layers[0].Digest != p.digest || m.Layers[0].MediaType != wire.MediaProgram ||
			read.Manifests[i].Digest != digestOf(p.manifest) || read.Manifests[i].Size != int64(len(p.manifest)) {
			t.Errorf("the manifest %s, %v", p.manifest, err)
		}
	}
}

func TestCreated(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1795348800": 1795348800, "-1": -1, "yesterday": -1, "9999999999999": -1} {
		at, err := created(func(string) string { return text })
		if (err != nil) != (want < 0) || err == nil && at.Unix() != want {
			t.Errorf("%q: got %v, %v", text, at, err)
		}
	}
}

// TestWavesText: a person is told in words what the waves are.
func TestWavesText(t *testing.T) {
	for wave, want := range map[string]string{
		"": "One node gets it first", "null": "All nodes get it at once.",
		`{"canary":"5%","steps":["25%","100%"]}`: "The waves are 5%, 25%, 100%.", `{"steps":["100%"]}`: "The waves are 100%.",
	} {
		if got := wavesText([]byte(wave)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q", wave, got)
		}
	}
	for want, w := range map[string]api.Waves{
		`{"canary":"1","steps":["100%"],"max_failed":"2%"}`: {MaxFailed: "2%"},
		`{"steps":["50%","100%"]}`:                          {Canary: "0", Steps: []string{"50%", "100%"}},
	} {
		if got := string(complete(w)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestProgress: a rollout in one line, and a log that cannot control the terminal.
func TestProgress(t *testing.T) {
	now := api.Channel{State: stateHalted, Wave: 1, Waves: 3, Why: "1 of 1 node went back",
		Counts: api.RolloutCounts{Nodes: 40, Running: 3, Failed: 1, Pinned: 2}}
	const want = "Rollout halted, wave 1 of 3: 3 of 40 nodes on it, 1 failed, 2 pinned; 1 of 1 node went back."
	if got := progressOf(now); got != want {
		t.Errorf("got %q", got)
	}
	log := strings.Repeat("earlier\n", shownLog) + "one\ttwo\r\n\x1b[31mred\n"
	if got := tail(log); strings.Count(got, "\n") != shownLog || !strings.HasSuffix(got, "  one    two\n  \\x1b[31mred\n") {
		t.Errorf("got %q", got)
	}
	trace := strings.Repeat("main.work()\n\t/src/main.go:1\n", 2*shownLog)
	log = "panic: earlier\n\n" + trace + "muster-agent.service: Failed\npanic: no such device\n\ngoroutine 1 [running]:\n" + trace +
		"muster-agent.service: Main process exited, code=exited, status=2\n"
	const begins = "  panic: no such device\n  \n  goroutine 1 [running]:\n  main.work()\n"
	if got := tail(log); !strings.HasPrefix(got, begins) || strings.Count(got, "\n") != shownLog {
		t.Errorf("of a panic: %q", got)
	}
}
