package task

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestAnyByte damages each byte of a journal of several tasks in several ways. Whatever it is, no task that has begun can begin again,
// neither from the journal nor because the gateway gives it again; nor after the next run of the agent, which finds no damage any more.
func TestAnyByte(t *testing.T) {
	issued := time.Now().Add(-time.Hour).UTC()
	expires := issued.Add(24 * time.Hour)
	began := map[string]bool{} // by id: whether its handler had begun
	read := func(raw []byte) *journal {
		j := &journal{now: time.Now, open: map[string]*entry{}, done: map[string]time.Time{}}
		j.load(raw)
		return j
	}
	records := []record{{Horizon: issued.Add(-time.Minute)}}
	forgotten := wire.NewTaskID() // expired before the horizon
	for _, steps := range [][]string{
		{stepReported}, {stepAccepted, stepStarted, stepFinished, stepReported}, {stepAccepted, stepStarted, stepFinished}, {stepAccepted},
		{stepAccepted, stepStarted},
	} {
		id := wire.NewTaskID()
		began[id] = len(steps) > 1 || steps[0] == stepReported
		for _, step := range steps {
			r := record{Task: id, Step: step, Expires: expires}
			switch step {
			case stepAccepted:
				r.Signed = &wire.SignedTask{Payload: []byte("p"), Signature: []byte("s")}
			case stepStarted:
				r.Started = &issued
			case stepFinished:
				r.Result = &wire.TaskResult{Status: wire.TaskCompleted}
			}
			records = append(records, r)
		}
	}
	var raw []byte
	for _, r := range records {
		line, err := r.line()
		must(t, err)
		raw = append(raw, line...)
	}
	again := func(j *journal, id string, expires time.Time) bool {
		for _, e := range j.unreported() {
			if e.Task == id && e.Step == stepAccepted {
				return true
			}
		}
		return !j.seen(id, expires) && !j.doubts(issued, 0)
	}
	check := func(what string, at int, to byte, j *journal) {
		for id, begun := range began {
			if begun && again(j, id, expires) {
				t.Errorf("%s: byte %d as %q: a task begins again", what, at, to)
			}
		}
		if again(j, forgotten, issued.Add(-time.Hour)) {
			t.Errorf("%s: byte %d as %q: a task that was forgotten begins", what, at, to)
		}
	}
	check("whole", 0, 0, read(raw))
	for at, b := range raw {
		for _, to := range []byte{b ^ 1, b ^ 2, b ^ 0x20, b ^ 0x80, b ^ 0xff, 0, '\n', '"', '0'} {
			if to == b {
				continue
			}
			changed := bytes.Clone(raw)
			changed[at] = to
			j := read(changed)
			check("damaged", at, to, j)
			content, err := j.content()
			must(t, err)
			check("after it", at, to, read(content))
		}
	}
}

// TestDamagedAnew: in a journal that was written anew, one damaged line hides no task that had begun. The gateway hears of each: its
// result, or that it was interrupted.
func TestDamagedAnew(t *testing.T) {
	at := time.Now().UTC()
	j := &journal{now: time.Now, open: map[string]*entry{}, done: map[string]time.Time{}}
	for _, last := range []string{stepStarted, stepFinished} {
		r := record{Task: wire.NewTaskID(), Expires: at.Add(time.Hour), Signed: &wire.SignedTask{Payload: []byte("p")}, Started: &at,
			Result: &wire.TaskResult{Status: wire.TaskCompleted}}
		for _, r.Step = range steps[:slices.Index(steps[:], last)+1] {
			j.apply(r)
		}
	}
	content, err := j.content()
	must(t, err)
	lines := slices.Collect(bytes.Lines(content))
	for i := range lines {
		damaged := slices.Clone(lines)
		damaged[i] = []byte("damaged\n")
		again := &journal{now: time.Now, open: map[string]*entry{}, done: map[string]time.Time{}}
		again.load(bytes.Join(damaged, nil))
		for id := range j.open {
			if e := again.open[id]; e == nil || e.Step == stepAccepted || !e.Expires.Equal(at.Add(time.Hour)) {
				t.Errorf("without line %d %s: %+v", i, lines[i], e)
			}
		}
	}
}

// TestDoubt: after damage, tasks that were issued by then may have been begun, by either clock. Later ones may not, also if this
// machine's clock was far ahead when the damage was found.
func TestDoubt(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name   string
		doubt  time.Duration // all by this machine's clock of now
		issued time.Duration
		offset time.Duration // of the gateway's clock
		want   bool
	}{
		{"before", -time.Hour, -2 * time.Hour, 0, true},
		{"after", -time.Hour, -time.Minute, 0, false},
		{"before, by the gateway's clock that is ahead", -time.Hour, 0, 90 * time.Minute, true},
		{"after, by the gateway's clock that is ahead", -time.Hour, 2 * time.Hour, 90 * time.Minute, false},
		{"a gateway that sets the clock back", -time.Hour, -2 * time.Hour, -24 * time.Hour, true},
		{"found with a clock that was ahead", 1000 * time.Hour, time.Second, 0, false},
		{"before that", 1000 * time.Hour, -time.Second, 0, true},
	} {
		j := &journal{doubt: now.Add(c.doubt)}
		if got := j.doubts(now.Add(c.issued), c.offset); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if j := (&journal{}); j.doubts(now.AddDate(-1, 0, 0), -1000*time.Hour) {
		t.Error("doubt without damage")
	}
}
