package task

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
)

func journalAt(t testing.TB, path string) *journal {
	t.Helper()
	j, err := openJournal(path, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.close)
	return j
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// fill puts the journal on a full disk.
func (j *journal) fill(t *testing.T) (mend func()) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	j.shut()
	j.file = full
	must(t, os.MkdirAll(j.path+".new/x", 0o700)) // so that no other file can be written either
	return func() { must(t, os.RemoveAll(j.path+".new")) }
}

// TestFullDisk: nothing is begun that is not on the disk. What has ended counts all the same, and is written as soon as there is space.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), JournalFile)
	j := journalAt(t, path)
	begun := wire.NewTaskID()
	expires := time.Now().Add(time.Hour)
	must(t, j.accept(begun, wire.SignedTask{}, expires), j.start(begun, time.Now().UTC()))
	mend := j.fill(t)
	refused := wire.NewTaskID()
	if err := j.accept(refused, wire.SignedTask{}, expires); !errors.Is(err, syscall.ENOSPC) || j.seen(refused, expires) {
		t.Errorf("%v", err)
	}
	if err := j.writable(); err == nil {
		t.Error("it can be written")
	}
	if err := j.finish(begun, wire.TaskResult{Status: wire.TaskCompleted}, "", false); err == nil {
		t.Error("it was written")
	}
	if left := j.unreported(); len(left) != 1 || left[0].Step != stepFinished {
		t.Errorf("%+v", left)
	}
	mend()
	must(t, j.writable())
	again := journalAt(t, path)
	if left := again.unreported(); len(left) != 1 || left[0].Step != stepFinished || left[0].Result.Status != wire.TaskCompleted {
		t.Errorf("%+v", left)
	}
}

// TestFullDiskAtTheStart: a handler does not begin if that cannot be noted.
func TestFullDiskAtTheStart(t *testing.T) {
	j := journalAt(t, filepath.Join(t.TempDir(), JournalFile))
	id := wire.NewTaskID()
	must(t, j.accept(id, wire.SignedTask{}, time.Now().Add(time.Hour)))
	defer j.fill(t)()
	if err := j.start(id, time.Now()); err == nil || j.unreported()[0].Step != stepAccepted {
		t.Errorf("%v, %+v", err, j.unreported())
	}
}

// TestDamagedJournal: each line that is whole counts, wherever the damage is. What was accepted counts as begun then, and a last line that
// was cut off is no damage.
func TestDamagedJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), JournalFile)
	j := journalAt(t, path)
	expires := time.Now().Add(time.Hour)
	var ids []string
	for range 3 {
		ids = append(ids, wire.NewTaskID())
		must(t, j.accept(ids[len(ids)-1], wire.SignedTask{Payload: []byte("p")}, expires))
	}
	raw, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(raw, []byte("\n"))
	for name, c := range map[string]struct {
		content []byte
		left    int
		damaged int
	}{
		"nothing":                  {nil, 0, 0},
		"cut off":                  {raw[:len(raw)-3], 2, 0},
		"cut off before its end":   {raw[:len(raw)-1], 2, 0},
		"zeroes at the end":        {append(bytes.Clone(raw), make([]byte, 512)...), 3, 1},
		"garbage at the beginning": {append([]byte("\x00\xff{}\n"), raw...), 3, 1},
		"a line in the middle":     {bytes.Join([][]byte{lines[0], lines[1], lines[2][5:], lines[3]}, nil), 2, 1},
		"one bit":                  {bytes.Replace(raw, []byte(ids[1]), []byte(strings.ToUpper(ids[1])), 1), 2, 1},
		"without a checksum":       {bytes.Join([][]byte{lines[1][sumLength+1:]}, nil), 0, 1},
		"all of it":                {bytes.Repeat([]byte{7}, 1000), 0, 1},
	} {
		must(t, os.WriteFile(path, c.content, 0o600))
		again, err := openJournal(path, time.Now, nil)
		must(t, err)
		if left := again.unreported(); len(left) != c.left || again.damaged != c.damaged {
			t.Errorf("%s: %d left, %d damaged", name, len(left), again.damaged)
		}
		for _, e := range again.unreported() {
			if begun := e.Step == stepStarted; begun != (c.damaged > 0) || e.unsure != strings.HasPrefix(name, "cut off") {
				t.Errorf("%s: %+v", name, e)
			}
		}
		id := wire.NewTaskID() // what comes after the damage counts
		must(t, again.accept(id, wire.SignedTask{}, expires))
		again.close()
		if last := journalAt(t, path); !last.seen(id, expires) || last.damaged != 0 {
			t.Errorf("%s: the next line is lost", name)
		}
	}
}

// TestJournalStaysSmall: thousands of tasks do not make it grow without end, and names are forgotten when their payloads count for
// nothing any more.
func TestJournalStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), JournalFile)
	now := time.Now()
	j, err := openJournal(path, func() time.Time { return now }, nil)
	must(t, err)
	defer j.close()
	expires := now.Add(time.Hour)
	open := wire.NewTaskID()
	must(t, j.accept(open, wire.SignedTask{Payload: []byte("p")}, expires.Add(time.Hour)))
	most := int64(0)
	for range 400 {
		id := wire.NewTaskID()
		must(t, j.accept(id, wire.SignedTask{Payload: make([]byte, 10<<10)}, expires), j.start(id, now.UTC()),
			j.finish(id, wire.TaskResult{}, "", false), j.report(id))
		most = max(most, j.size)
	}
	if most > 2*journalGrowth {
		t.Errorf("%d bytes", most)
	}
	old := wire.NewTaskID()
	if j.seen(old, expires) {
		t.Error("an unknown task was seen")
	}
	now = now.Add(2 * time.Hour) // the gateway's clock alone
	must(t, j.rewrite())
	if len(j.done) != 400 {
		t.Errorf("%d names", len(j.done))
	}
	long := now.Add(-3 * time.Hour) // by both clocks
	for range mostNames {
		j.done[wire.NewTaskID()] = long
	}
	must(t, j.rewrite())
	if len(j.done) != mostNames || !j.horizon.Equal(long) {
		t.Errorf("%d names, the horizon is %v", len(j.done), j.horizon)
	}
	if !j.seen(old, long) || j.seen(old, long.Add(time.Nanosecond)) {
		t.Error("a task that was forgotten could come again, or a later one cannot come")
	}
}

// TestUnreadableJournal: if it cannot be read, it is not begun anew, because it may hold what was begun. What no agent wrote holds up
// nothing.
func TestUnreadableJournal(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a disk of zeroes": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
	} {
		path := filepath.Join(t.TempDir(), JournalFile)
		must(t, put(path))
		before, err := os.Stat(path)
		must(t, err)
		if _, err := openJournal(path, time.Now, nil); err == nil {
			t.Errorf("%s: it was opened", name)
		}
		if after, err := os.Stat(path); err != nil || after.Mode() != before.Mode() || after.Size() != before.Size() {
			t.Errorf("%s: %v, %v", name, after, err)
		}
	}
}

func FuzzJournal(f *testing.F) {
	id := "abcdefghijklmnop"
	now := time.Now().UTC()
	for _, r := range []record{
		{Task: id, Step: stepAccepted, Signed: &wire.SignedTask{Payload: []byte("p")}, Expires: now},
		{Task: id, Step: stepStarted, Started: &now}, {Task: id, Step: stepFinished, Result: &wire.TaskResult{}},
		{Task: id, Step: stepReported}, {Horizon: now}, {Task: id, Step: "of tomorrow"}, {Task: id, Step: stepStarted},
	} {
		line, err := r.line()
		must(f, err)
		f.Add(line, true)
		f.Add(append(line, line...), false)
	}
	read := func(raw []byte) *journal {
		j := &journal{now: time.Now, open: map[string]*entry{}, done: map[string]time.Time{}}
		j.load(raw)
		return j
	}
	f.Fuzz(func(t *testing.T, raw []byte, summed bool) {
		if summed { // the fuzzer does not guess checksums
			var all []byte
			for line := range bytes.Lines(raw) {
				text := bytes.TrimSuffix(line[min(len(line), sumLength+1):], []byte("\n"))
				all = fmt.Appendf(all, "%0*x %s\n", sumLength, crc32.ChecksumIEEE(text), text)
			}
			raw = all
		}
		j := read(raw)
		first := j.unreported()
		content, err := j.content()
		must(t, err)
		again := read(content)
		if len(again.unreported()) != len(first) || again.damaged != 0 {
			t.Errorf("%d left, then %d; %d damaged", len(first), len(again.unreported()), again.damaged)
		}
		for i, e := range again.unreported() {
			if e.Step != first[i].Step || e.Task != first[i].Task {
				t.Errorf("%+v, then %+v", first[i], e)
			}
		}
	})
}
