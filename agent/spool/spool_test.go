package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"muster/agent/disk/disktest"
	"muster/agent/spool"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, bound int64) *spool.Spool {
	t.Helper()
	s := spool.Open(spool.Config{Dir: dir, Bound: bound})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// put appends a record that says its number.
func put(t testing.TB, s *spool.Spool) int64 {
	t.Helper()
	want := s.Stats().Next
	got, err := s.Append(text(want))
	if err != nil || got != want {
		t.Fatalf("number %d, want %d: %v", got, want, err)
	}
	return got
}

func text(number int64) []byte {
	return fmt.Appendf(nil, "record %d %s", number, strings.Repeat("x", 300))
}

// all reads to the end. It checks that numbers go up, that every number is there or in a gap, and that each record is what was put.
func all(t testing.TB, r *spool.Reader, from int64) (records []spool.Record, lost int64) {
	t.Helper()
	want := from
	for {
		got, err := r.Next(4 << 10)
		must(t, err)
		if len(got) == 0 {
			return records, lost
		}
		for _, one := range got {
			first := one.Number
			if one.Gap != nil {
				first = one.Gap.From
				lost += one.Gap.Lost
			} else if !bytes.Equal(one.Data, text(one.Number)) {
				t.Fatalf("record %d is %.40q", one.Number, one.Data)
			}
			if first != want {
				t.Fatalf("after %d comes %d (%+v)", want-1, first, one.Gap)
			}
			want = one.Number + 1
			records = append(records, one)
		}
	}
}

// TestOrder: records come in their order, after a restart too, until they are confirmed.
func TestOrder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	name := s.Name()
	for range 1000 {
		put(t, s)
	}
	must(t, s.Confirm(400))
	must(t, s.Close())
	s = open(t, dir, 1<<20)
	if s.Name() != name || s.Stats().Next != 1001 || s.Stats().Confirmed != 400 {
		t.Fatalf("%+v, want the name %s", s.Stats(), name)
	}
	put(t, s)
	r := s.Untaken()
	defer r.Close()
	got, lost := all(t, r, 401)
	if len(got) != 601 || lost != 0 {
		t.Errorf("%d records, %d lost", len(got), lost)
	}
	put(t, s)
	if got, _ = all(t, r, 1002); len(got) != 1 {
		t.Errorf("%d new ones", len(got))
	}
}

// TestConfirm: whole segments go when all of them is taken, and the numbers go on.
func TestConfirm(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	for range 2500 {
		put(t, s)
	}
	before := s.Stats().Bytes
	must(t, s.Confirm(2500))
	if after := s.Stats().Bytes; after >= before/4 || s.Stats().Dropped != 0 {
		t.Errorf("%d bytes of %d stay, %+v", after, before, s.Stats())
	}
	must(t, s.Confirm(3)) // nothing goes back
	must(t, s.Close())
	s = open(t, dir, 1<<20)
	if got := put(t, s); got != 2501 || s.Stats().Confirmed != 2500 {
		t.Errorf("number %d, %+v", got, s.Stats())
	}
}

// TestBound: the oldest go, a reader hears how many, and the folder stays within its bound.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	const bound = 256 << 10
	s := open(t, dir, bound)
	r := s.Reader(1)
	defer r.Close()
	for range 10 {
		put(t, s)
	}
	if got, _ := all(t, r, 1); len(got) != 10 {
		t.Fatalf("%d records", len(got))
	}
	for range 10000 {
		put(t, s)
	}
	if size := folder(t, dir); size > bound {
		t.Errorf("the folder has %d bytes", size)
	}
	got, lost := all(t, r, 11)
	if got[0].Gap == nil || got[0].Gap.Reason != spool.ReasonFull || lost+int64(len(got)-1) != 10000 {
		t.Errorf("first %+v, %d lost, %d records", got[0], lost, len(got))
	}
	if s.Stats().Dropped != lost+10 { // nobody confirmed the first ten
		t.Errorf("dropped %d, a reader lost %d", s.Stats().Dropped, lost)
	}
}

func folder(t testing.TB, dir string) (size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		size += info.Size()
	}
	return size
}

// TestLose: what never got in is told of in its place, also by a spool that ends before the next record.
func TestLose(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	put(t, s)
	s.Lose(5, "the disk was full")
	s.Lose(2, "the disk was full")
	s.Lose(1, "too fast")
	must(t, s.Close())
	s = open(t, dir, 1<<20)
	if n := put(t, s); n != 10 {
		t.Errorf("number %d", n)
	}
	r := s.Reader(1)
	defer r.Close()
	got, lost := all(t, r, 1)
	if len(got) != 4 || lost != 8 || *got[1].Gap != (spool.Gap{From: 2, To: 8, Lost: 7, Reason: "the disk was full"}) {
		t.Errorf("%d records, %d lost, %+v", len(got), lost, got[1].Gap)
	}
}

// TestDamage: whatever is flipped, cut off or deleted, a spool opens, reads what is whole and says that something is missing.
func TestDamage(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		s := open(t, dir, 128<<10)
		for range 150 {
			put(t, s)
		}
		must(t, s.Close())
		harmed := harm(t, dir, random)
		s = open(t, dir, 128<<10)
		for range 3 {
			put(t, s)
		}
		from := s.Stats().Confirmed + 1
		r := s.Untaken()
		got, lost := all(t, r, from)
		r.Close()
		if harmed && lost == 0 && from == 1 && s.Stats().Next < 154 {
			t.Errorf("seed %d: nothing is said of the damage", seed)
		}
		if whole := got[max(len(got)-3, 0):]; len(whole) != 3 || whole[0].Gap != nil || whole[2].Number != s.Stats().Next-1 {
			t.Errorf("seed %d: the newest are missing: %+v", seed, whole)
		}
	}
}

// harm damages one file, and tells whether that can be noticed.
func harm(t *testing.T, dir string, random *rand.Rand) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	path := files[random.IntN(len(files))]
	content, err := os.ReadFile(path)
	must(t, err)
	switch random.IntN(3) {
	case 0:
		must(t, os.Remove(path))
		return path != files[len(files)-1] // nobody knows what stood in the newest one
	case 1:
		must(t, os.WriteFile(path, content[:random.IntN(len(content))], 0o600))
	default:
		content[random.IntN(len(content))] ^= byte(1 + random.IntN(255))
		must(t, os.WriteFile(path, content, 0o600))
	}
	return true
}

// TestFull: a full disk fails an append and changes nothing; the next one goes on.
func TestFull(t *testing.T) {
	for _, step := range []string{"create", "head", "append", "sync a segment", "sync the folder", "remove", "cut"} {
		dir := t.TempDir()
		full := false
		s := spool.Open(spool.Config{Dir: dir, Bound: 64 << 10, Steps: disktest.Named(func(at string) error {
			if full && (at == step || step == "cut" && at == "append") {
				return syscall.ENOSPC
			}
			return nil
		})})
		r := s.Reader(1)
		failed := 0
		for i := range 1500 {
			full = i%100 > 90
			if _, err := s.Append(text(s.Stats().Next)); err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				failed++
				s.Lose(1, "the disk was full")
			}
			if full && i%3 == 0 {
				if _, err := r.Next(100); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
		}
		full = false
		put(t, s)
		if _, lost := all(t, s.Reader(1), 1); lost < int64(failed) {
			t.Errorf("%s: %d failed, and %d are lost", step, failed, lost)
		}
		r.Close()
		must(t, s.Close())
	}
}

// TestPartWritten: what a failed write left is cut off, or passed over if it cannot be cut off.
func TestPartWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 1<<20)
	put(t, s)
	must(t, s.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	must(t, err)
	file, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = file.Write(text(2)[:50])
	must(t, errors.Join(err, file.Close()))
	s = open(t, dir, 1<<20)
	if s.Stats().Dropped != 1 {
		t.Errorf("%+v", s.Stats())
	}
	put(t, s)
	if got, lost := all(t, s.Reader(1), 1); len(got) != 3 || lost != 1 {
		t.Errorf("%d records, %d lost", len(got), lost)
	}
}

// TestTooLarge: a record that is too large is refused, and one that fits alone comes alone.
func TestTooLarge(t *testing.T) {
	s := open(t, t.TempDir(), 8<<20)
	if _, err := s.Append(make([]byte, spool.MaxRecord+1)); err == nil || s.Stats().Next != 1 {
		t.Errorf("%v, %+v", err, s.Stats())
	}
	if _, err := s.Append(make([]byte, spool.MaxRecord)); err != nil {
		t.Fatal(err)
	}
	put(t, s)
	r := s.Reader(1)
	defer r.Close()
	if got, err := r.Next(10); err != nil || len(got) != 1 || len(got[0].Data) != spool.MaxRecord {
		t.Errorf("%d records, %v", len(got), err)
	}
	if n, err := s.Append(); n != 2 || err != nil {
		t.Errorf("nothing appended: %d, %v", n, err)
	}
}

// TestSideBySide: a reader, a confirmer and writers do not get into each other's way.
func TestSideBySide(t *testing.T) {
	s := open(t, t.TempDir(), 8<<20)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 500 {
				if _, err := s.Append(fmt.Appendf(nil, "%d %d", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r := s.Untaken()
	defer r.Close()
	seen := 0
	at := map[int]int{}
	for seen < 2000 {
		got, err := r.Next(1 << 10)
		must(t, err)
		for _, one := range got {
			seen++
			var w, i int
			if _, err := fmt.Sscanf(string(one.Data), "%d %d", &w, &i); err != nil || at[w] != i || one.Number != int64(seen) {
				t.Fatalf("record %d (%d) is %q: %v", seen, one.Number, one.Data, err)
			}
			at[w]++
			must(t, s.Confirm(one.Number))
		}
		if len(got) == 0 {
			<-s.News()
		}
	}
	writers.Wait()
	if s.Stats().Dropped != 0 {
		t.Errorf("%+v", s.Stats())
	}
}

// TestRemove: a removed spool leaves nothing, and a new one there has another name.
func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := open(t, dir, 1<<20)
	name := s.Name()
	put(t, s)
	must(t, s.Remove())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
	if s = open(t, dir, 1<<20); s.Name() == name || s.Stats().Next != 1 {
		t.Errorf("%+v, before %s", s.Stats(), name)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a spool without a record has made its folder: %v", err)
	}
}

// TestRemoved: who still has a removed spool does not bring its folder back.
func TestRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := open(t, dir, 1<<20)
	put(t, s)
	must(t, s.Remove())
	if _, err := s.Append([]byte("late")); err == nil {
		t.Error("it takes a record")
	}
	must(t, s.Confirm(1))
	must(t, s.Close())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}
