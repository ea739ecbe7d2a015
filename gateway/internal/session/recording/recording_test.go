package recording_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/session/asciicast"
	"muster/gateway/internal/session/recording"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

func config(folder string) recording.Config {
	return recording.Config{Folder: folder, Key: bytes.Repeat([]byte{7}, 32), Most: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
}

func open(t testing.TB, c recording.Config) *recording.Store {
	t.Helper()
	s, err := recording.Open(c)
	must(t, err)
	return s
}

func meta(id string) recording.Meta {
	return recording.Meta{ID: id, Node: "gpu-1", User: "ada", Term: "xterm", Rows: 24, Columns: 80, At: noon()}
}

// take makes a whole recording of pieces, one a second.
func take(t testing.TB, s *recording.Store, id string, pieces ...string) {
	t.Helper()
	tape, err := s.Begin(meta(id))
	must(t, err)
	for i, piece := range pieces {
		must(t, tape.Output(noon().Add(time.Duration(i)*time.Second), []byte(piece)))
	}
	must(t, tape.End(noon().Add(time.Hour), "exit 0"))
}

// played gives what a recording shows, and how much of it is there.
func played(t testing.TB, s *recording.Store, id string) (string, *recording.Play) {
	t.Helper()
	p, err := s.Find(id)
	must(t, err)
	defer p.Close()
	var cast bytes.Buffer
	n, err := p.WriteTo(&cast)
	must(t, err)
	if n != p.Bytes || n != int64(cast.Len()) {
		t.Errorf("%d bytes were said, %d counted, %d written", p.Bytes, n, cast.Len())
	}
	return text(t, &cast), p
}

func text(t testing.TB, cast io.Reader) string {
	t.Helper()
	var all strings.Builder
	d, _, err := asciicast.NewDecoder(cast)
	if errors.Is(err, io.EOF) {
		return ""
	}
	must(t, err)
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		must(t, err)
		if e.Kind == asciicast.Output {
			all.WriteString(e.Data)
		}
	}
}

// TestSameBytes: what was recorded is what is played, in pieces of all sizes.
func TestSameBytes(t *testing.T) {
	s := open(t, config(filepath.Join(t.TempDir(), "recordings")))
	random := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		id := wire.NewSessionID()
		var pieces []string
		for range random.IntN(30) {
			piece := make([]byte, random.IntN(1<<random.IntN(16)+1))
			for i := range piece {
				piece[i] = byte(random.IntN(256))
			}
			pieces = append(pieces, string(piece))
			if len(strings.Join(pieces, "")) > 100_000 {
				break
			}
		}
		take(t, s, id, pieces...)
		got, p := played(t, s, id)
		if want := string([]rune(strings.Join(pieces, ""))); got != want || p.State != api.RecordingComplete || p.Why != nil {
			t.Errorf("%d bytes in %d pieces became %d bytes, %s, %v", len(want), len(pieces), len(got), p.State, p.Why)
		}
	}
}

// TestSealed: nothing that a terminal showed stands in the file, nor whose terminal it was. Nobody else may read the file.
func TestSealed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "recordings")
	s := open(t, config(folder))
	id := wire.NewSessionID()
	take(t, s, id, strings.Repeat("hunter2 ", 1000))
	raw, err := os.ReadFile(filepath.Join(folder, id+".cast"))
	must(t, err)
	for _, plain := range []string{"hunter2", "gpu-1", "ada", "version"} {
		if bytes.Contains(raw, []byte(plain)) {
			t.Errorf("%q stands in the file", plain)
		}
	}
	for path, mode := range map[string]fs.FileMode{folder: 0o700 | fs.ModeDir, filepath.Join(folder, id+".cast"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// TestCutAnywhere: of a file that ends at any byte, all whole parts before are played, and play says that the end is missing.
func TestCutAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		s := open(t, config(folder))
		id := wire.NewSessionID()
		tape, err := s.Begin(meta(id))
		must(t, err)
		path := filepath.Join(folder, id+".cast")
		ends := map[int64]string{size(t, path): ""} // what is played of a file of this size
		all := ""
		for i := range 5 {
			piece := fmt.Sprintf("piece %d\r\n", i)
			must(t, tape.Output(time.Now(), []byte(piece)))
			all += piece
			time.Sleep(2 * time.Second)
			synctest.Wait()
			ends[size(t, path)] = all
		}
		must(t, tape.End(time.Now(), ""))
		raw, err := os.ReadFile(path)
		must(t, err)
		if len(ends) != 6 {
			t.Fatalf("there are %d parts", len(ends))
		}
		want := ""
		for cut := range raw {
			must(t, os.WriteFile(path, raw[:cut], 0o600))
			if more, ok := ends[int64(cut)]; ok {
				want = more
			}
			if got, p := played(t, s, id); got != want || p.State != api.RecordingCutOff || p.Why == nil {
				t.Fatalf("cut at %d of %d: %q, want %q; %s, %v", cut, len(raw), got, want, p.State, p.Why)
			}
		}
	})
}

// TestBusyTape: output that fills many parts at once leaves nothing behind that cuts those of later output short.
func TestBusyTape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		id := wire.NewSessionID()
		tape, err := open(t, config(folder)).Begin(meta(id))
		must(t, err)
		path := filepath.Join(folder, id+".cast")
		for range 20 {
			must(t, tape.Output(time.Now(), bytes.Repeat([]byte("x"), 40<<10)))
			time.Sleep(50 * time.Millisecond)
		}
		parts := 0
		for range 19 { // until the last of the first ones is a second old
			before := size(t, path)
			must(t, tape.Output(time.Now(), []byte("y")))
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
			if size(t, path) != before {
				parts++
			}
		}
		if parts > 1 {
			t.Errorf("%d parts in a second", parts)
		}
		must(t, tape.End(time.Now(), ""))
	})
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

// TestDamagedAnywhere: no byte of the file can be changed unseen.
func TestDamagedAnywhere(t *testing.T) {
	folder := t.TempDir()
	s := open(t, config(folder))
	id := wire.NewSessionID()
	take(t, s, id, "one", "two")
	path := filepath.Join(folder, id+".cast")
	raw, err := os.ReadFile(path)
	must(t, err)
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 1
		must(t, os.WriteFile(path, bad, 0o600))
		got, p := played(t, s, id)
		if p.State == api.RecordingComplete || p.Why == nil || !strings.HasPrefix("onetwo", got) {
			t.Errorf("byte %d changed: %s, %q", i, p.State, got)
		}
	}
	must(t, os.WriteFile(path, append(raw, 0), 0o600))
	if _, p := played(t, s, id); p.State != api.RecordingDamaged {
		t.Errorf("a byte behind the end: %s", p.State)
	}
}

// TestParts: parts that were dropped, swapped, doubled or taken from another recording are seen.
func TestParts(t *testing.T) {
	folder := t.TempDir()
	s := open(t, config(folder))
	id, other := wire.NewSessionID(), wire.NewSessionID()
	path := filepath.Join(folder, id+".cast")
	var cuts []int64
	tape, err := s.Begin(meta(id))
	must(t, err)
	cuts = append(cuts, size(t, path))
	for range 3 {
		must(t, tape.Output(noon(), []byte("a piece")))
		p, err := s.Find(id) // brings it into the file
		must(t, err)
		must(t, p.Close())
		cuts = append(cuts, size(t, path))
	}
	must(t, tape.End(noon(), ""))
	take(t, s, other, "a piece", "a piece")
	raw, err := os.ReadFile(path)
	must(t, err)
	foreign, err := os.ReadFile(filepath.Join(folder, other+".cast"))
	must(t, err)
	head, one, two, three, end := raw[:cuts[0]], raw[cuts[0]:cuts[1]], raw[cuts[1]:cuts[2]], raw[cuts[2]:cuts[3]], raw[cuts[3]:]
	for name, parts := range map[string][][]byte{
		"dropped":         {head, one, three, end},
		"first dropped":   {head, two, three, end},
		"swapped":         {head, two, one, three, end},
		"doubled":         {head, one, one, two, three, end},
		"end first":       {head, end},
		"another's head":  {foreign[:cuts[0]], one, two, three, end},
		"another's parts": {head, foreign[cuts[0]:]},
		"another's file":  {foreign},
	} {
		must(t, os.WriteFile(path, bytes.Join(parts, nil), 0o600))
		if _, p := played(t, s, id); p.State != api.RecordingDamaged || p.Why == nil {
			t.Errorf("%s: %s", name, p.State)
		}
	}
}

// TestWrongKey: another key opens nothing, and play says why.
func TestWrongKey(t *testing.T) {
	folder := t.TempDir()
	id := wire.NewSessionID()
	take(t, open(t, config(folder)), id, "text")
	c := config(folder)
	c.Key = bytes.Repeat([]byte{8}, 32)
	got, p := played(t, open(t, c), id)
	if got != "" || p.State != api.RecordingDamaged || !strings.Contains(p.Why.Error(), "its key does not open") {
		t.Errorf("%q, %s, %v", got, p.State, p.Why)
	}
	c.Key = c.Key[:16]
	if _, err := recording.Open(c); err == nil || !strings.Contains(err.Error(), "16 bytes, want 32") {
		t.Errorf("a short key: %v", err)
	}
}

// TestLive: a recording is played while its session goes on. A gateway that dies leaves all but the last second.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		s := open(t, config(folder))
		id := wire.NewSessionID()
		tape, err := s.Begin(meta(id))
		must(t, err)
		must(t, tape.Output(time.Now(), []byte("early ")))
		time.Sleep(time.Second)
		synctest.Wait()
		must(t, tape.Output(time.Now(), []byte("late")))
		after := open(t, config(folder)) // as the next gateway sees it
		if got, p := played(t, after, id); got != "early " || p.State != api.RecordingCutOff {
			t.Errorf("after a crash: %q, %s", got, p.State)
		}
		if got, p := played(t, s, id); got != "early late" || p.State != api.RecordingLive || p.Why != nil {
			t.Errorf("while it goes on: %q, %s, %v", got, p.State, p.Why)
		}
		must(t, tape.Size(time.Now(), 50, 132))
		must(t, tape.End(time.Now(), ""))
		must(t, tape.End(time.Now(), "")) // does nothing
		if err := tape.Output(time.Now(), []byte("x")); !errors.Is(err, os.ErrClosed) {
			t.Errorf("output after the end: %v", err)
		}
		if err := tape.Size(time.Now(), 1, 1); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a size after the end: %v", err)
		}
		if _, p := played(t, s, id); p.State != api.RecordingComplete {
			t.Errorf("after its end: %s", p.State)
		}
	})
}

// FuzzFile: no file makes the reader panic, or passes for a recording that this gateway did not seal.
func FuzzFile(f *testing.F) {
	folder := f.TempDir()
	s := open(f, config(folder))
	id := wire.NewSessionID()
	take(f, s, id, "one", "two")
	path := filepath.Join(folder, id+".cast")
	whole, err := os.ReadFile(path)
	must(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(whole[:90])
	f.Fuzz(func(t *testing.T, raw []byte) {
		must(t, os.WriteFile(path, raw, 0o600))
		got, p := played(t, s, id)
		if (p.State == api.RecordingComplete) != bytes.Equal(raw, whole) || !strings.HasPrefix("onetwo", got) {
			t.Fatalf("%s, %q", p.State, got)
		}
	})
}
