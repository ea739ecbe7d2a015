package task

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/agent/wire"
)

// JournalFile is the journal's name in the agent's state directory.
const JournalFile = "tasks.journal"

// journalGrowth is by how many bytes the journal may grow before it is written anew without what is not needed any more.
const journalGrowth = 1 << 20

// maxJournal is more bytes than a journal ever has: most tasks with their payloads and results, and the names of a week.
const maxJournal = 128 << 20

// Names of tasks that are over are kept past their expiry, for this time and up to this number.
const (
	keepNames = wire.MaxTaskLife
	mostNames = 10_000
)

// Steps of a task in the journal, in their order.
const (
	stepAccepted = "accepted" // it was verified, and is ours to do
	stepStarted  = "started"  // the gateway knows, and the handler begins now
	stepFinished = "finished" // its result is known
	stepReported = "reported" // the gateway has the result, or wants none
)

var steps = [...]string{stepAccepted, stepStarted, stepFinished, stepReported}

// entry is a task that the gateway waits for: all that its records have said.
type entry struct {
	record
	unsure bool // the journal ended with a line that was cut off: it may have been more than that
}

// journal remembers tasks across restarts and power cuts. What it has taken is on the disk. Its methods are safe for concurrent use.
type journal struct {
	path string
	now  func() time.Time // by the gateway's clock
	disk disk.Steps       // nil: nobody is told; for tests

	mu      sync.Mutex
	file    *os.File // nil: it has to be written anew before it takes more
	size    int64
	written int64 // its size when it was last written anew
	open    map[string]*entry
	done    map[string]time.Time // tasks that are reported, with the time after which their payloads count for nothing
	horizon time.Time            // what expires by then and is not known here is a task that was forgotten
	damaged int                  // lines that could not be read
	doubt   time.Time            // when lines were last found damaged: they may have told of any task that was issued by then
}

// openJournal reads a journal, or begins one. A damaged line may have said that a task was started, so nothing that was accepted is begun
// after it. A last line that was cut off says nothing: what it was to allow has not begun.
func openJournal(path string, now func() time.Time, steps disk.Steps) (*journal, error) {
	j := &journal{path: path, now: now, disk: steps, open: map[string]*entry{}, done: map[string]time.Time{}}
	raw, err := disk.ReadFile(path, maxJournal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	j.load(raw)
	if err := j.rewrite(); err != nil {
		return nil, err
	}
	return j, nil
}

// doubts tells whether a task that the journal did not know may have been begun all the same. Its time of issue may be by the gateway's
// clock or by this machine's; offset is the gateway's minus this one's. A clock that was far ahead when the damage was found, and is
// right now, holds up nothing for long.
func (j *journal) doubts(issued time.Time, offset time.Duration) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if latest := time.Now().Add(max(offset, 0)).UTC(); j.doubt.After(latest) {
		j.doubt = latest
	}
	return !issued.Add(-max(offset, 0)).After(j.doubt)
}

// load takes what a journal says. With damage, what was accepted counts as started.
func (j *journal) load(raw []byte) {
	cut := false
	for line := range bytes.Lines(raw) {
		switch r, err := readRecord(line); err {
		case errCutOff:
			cut = true
		case errDamaged:
			j.damaged++
		default:
			j.apply(r)
		}
	}
	for _, e := range j.open {
		e.unsure = cut
		if j.damaged > 0 && e.Step == stepAccepted {
			e.Step = stepStarted
		}
	}
	if j.damaged > 0 {
		j.doubt = time.Now().UTC()
	}
}

// writable tells whether the journal can be written, as far as one can know before.
func (j *journal) writable() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		return nil
	}
	return j.rewrite()
}

// close ends the use of the file.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shut()
}

func (j *journal) shut() {
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
}

// apply takes what a record says. A task never goes back a step, whatever an old record says after a new one.
func (j *journal) apply(r record) {
	if r.Horizon.After(j.horizon) {
		j.horizon = r.Horizon
	}
	if r.Doubt.After(j.doubt) {
		j.doubt = r.Doubt
	}
	_, over := j.done[r.Task]
	step := slices.Index(steps[:], r.Step)
	if over || r.Task == "" || step < 0 {
		return
	}
	e := j.open[r.Task]
	if e == nil {
		e = &entry{record: record{Task: r.Task, Step: r.Step}}
		j.open[r.Task] = e
	}
	if !r.Expires.IsZero() {
		e.Expires = r.Expires
	}
	e.Signed = cmp.Or(r.Signed, e.Signed)
	e.Started = cmp.Or(r.Started, e.Started)
	if r.Step == stepFinished {
		e.Result, e.Archive, e.Follows = r.Result, r.Archive, r.Follows
	}
	if step > slices.Index(steps[:], e.Step) {
		e.Step = r.Step
	}
	if r.Step == stepReported {
		delete(j.open, r.Task)
		j.done[r.Task] = e.Expires
	}
}

// seen tells whether a task was accepted before, or may have been.
func (j *journal) seen(id string, expires time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, over := j.done[id]
	return over || j.open[id] != nil || !expires.After(j.horizon)
}

// unreported are the tasks that the gateway waits for, in the order of their ids.
func (j *journal) unreported() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []entry
	for _, id := range slices.Sorted(maps.Keys(j.open)) {
		all = append(all, *j.open[id])
	}
	return all
}

// steps are all tasks, with how far each came.
func (j *journal) steps() map[string]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := map[string]string{}
	for id := range j.done {
		all[id] = stepReported
	}
	for id, e := range j.open {
		all[id] = e.Step
	}
	return all
}

// accept notes that a task is ours to do. If the error is not nil, nothing may be begun.
func (j *journal) accept(id string, signed wire.SignedTask, expires time.Time) error {
	return j.take(record{Task: id, Step: stepAccepted, Signed: &signed, Expires: expires}, false)
}

// start notes that the handler begins. If the error is not nil, it must not.
func (j *journal) start(id string, at time.Time) error {
	return j.take(record{Task: id, Step: stepStarted, Started: &at}, false)
}

// finish notes the result. It counts in this process also if it could not be written.
func (j *journal) finish(id string, result wire.TaskResult, archive string, follows bool) error {
	return j.take(record{Task: id, Step: stepFinished, Result: &result, Archive: archive, Follows: follows}, true)
}

// report notes that the gateway does not wait for the task any more. It counts in this process also if it could not be written.
func (j *journal) report(id string) error {
	return j.take(record{Task: id, Step: stepReported}, true)
}

// take writes one record to the disk and applies it. always says that it counts also if it could not be written.
func (j *journal) take(r record, always bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.open[r.Task]; e != nil && r.Expires.IsZero() {
		r.Expires = e.Expires
	}
	err := j.append(r)
	if err == nil || always {
		j.apply(r)
	}
	if err == nil && j.size > j.written+journalGrowth {
		err = j.rewrite()
	}
	if err != nil {
		return fmt.Errorf("write it: %w", err)
	}
	return nil
}

// append writes a line and waits for the disk. After a failure nobody knows what of it is on the disk. Then the file is written anew
// before it takes the next line.
func (j *journal) append(r record) error {
	if j.file == nil {
		if err := j.rewrite(); err != nil {
			return err
		}
	}
	line, err := r.line()
	if err != nil {
		return err
	}
	_, err = j.file.Write(line)
	if err == nil {
		err = j.disk.Sync("a line of the journal", j.file)
	}
	if err != nil {
		j.shut()
		return err
	}
	j.size += int64(len(line))
	return nil
}

// rewrite replaces the file by one that has only what is needed: the tasks that are not reported, and the names of those whose
// payloads could come again.
func (j *journal) rewrite() error {
	j.shut()
	j.forget()
	content, err := j.content()
	if err != nil {
		return err
	}
	if err := j.disk.Replace(j.path, content, 0o600); err != nil {
		return err
	}
	file, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	j.file = file
	j.size = int64(len(content))
	j.written = j.size
	return nil
}

// content is all that is known, as lines.
func (j *journal) content() (content []byte, err error) {
	records := []record{{Horizon: j.horizon, Doubt: j.doubt}}
	for id, expires := range j.done {
		records = append(records, record{Task: id, Step: stepReported, Expires: expires})
	}
	for _, e := range j.open {
		records = append(records, e.records()...)
	}
	for _, r := range records {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		content = append(content, line...)
	}
	return content, nil
}

// forget drops the names of reported tasks whose payloads have expired long ago by both clocks, the gateway's and this machine's, and
// the oldest ones where there are many. A clock that is set back later does not bring them back, for the horizon stays.
func (j *journal) forget() {
	now := j.now()
	if local := time.Now(); local.Before(now) {
		now = local
	}
	names := slices.SortedFunc(maps.Keys(j.done), func(a, b string) int { return j.done[a].Compare(j.done[b]) })
	for i, id := range names {
		expires := j.done[id]
		if !expires.Before(now) || !expires.Before(now.Add(-keepNames)) && len(names)-i <= mostNames {
			return
		}
		delete(j.done, id)
		if expires.After(j.horizon) {
			j.horizon = expires
		}
	}
}

// records say all of an entry, a line for each step: where one of the lines is damaged later, the others still tell of the task, and the
// gateway hears what became of it.
func (e *entry) records() (all []record) {
	if e.Signed != nil {
		all = append(all, record{Task: e.Task, Step: stepAccepted, Signed: e.Signed, Expires: e.Expires})
	}
	if e.Step != stepAccepted {
		all = append(all, record{Task: e.Task, Step: stepStarted, Started: e.Started, Expires: e.Expires})
	}
	if e.Step == stepFinished {
		all = append(all, record{Task: e.Task, Step: stepFinished, Result: e.Result, Archive: e.Archive, Follows: e.Follows, Expires: e.Expires})
	}
	return all
}
