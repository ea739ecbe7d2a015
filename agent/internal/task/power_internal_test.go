package task

import (
	"path/filepath"
	"testing"
	"time"

	"muster/agent/disk/disktest"
	"muster/agent/wire"
)

// TestPowerCuts: what the journal has taken is there after a loss of power, at whatever step that comes: a task that began is never
// forgotten, so it is never begun again.
func TestPowerCuts(t *testing.T) {
	order := map[string]int{stepAccepted: 1, stepStarted: 2, stepFinished: 3, stepReported: 4}
	tasks := []string{wire.NewTaskID(), wire.NewTaskID(), wire.NewTaskID()}
	var taken map[string]int
	note := func(id, step string, err error) {
		if err == nil {
			taken[id] = order[step]
		}
	}
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		taken = map[string]int{}
		j := journalAt(t, filepath.Join(m.Dir, JournalFile))
		must(t, j.accept(tasks[0], wire.SignedTask{}, time.Now().Add(time.Hour)))
		j.close()
		taken[tasks[0]] = order[stepAccepted]
	}, func(m *disktest.Machine) {
		j, err := openJournal(filepath.Join(m.Dir, JournalFile), time.Now, m.Steps)
		if err != nil {
			return
		}
		defer j.close()
		for _, id := range tasks {
			note(id, stepAccepted, j.accept(id, wire.SignedTask{}, time.Now().Add(time.Hour)))
			note(id, stepStarted, j.start(id, time.Now()))
		}
		note(tasks[1], stepFinished, j.finish(tasks[1], wire.TaskResult{Status: wire.TaskCompleted}, "", false))
		j.shut() // as after a failure: the next line has the file written anew
		note(tasks[1], stepReported, j.report(tasks[1]))
		note(tasks[2], stepFinished, j.finish(tasks[2], wire.TaskResult{Status: wire.TaskCompleted}, "", false))
	}, func(dir, happened string) {
		j := journalAt(t, filepath.Join(dir, JournalFile))
		found := j.steps()
		for id, step := range taken {
			if order[found[id]] < step {
				t.Errorf("%s: the journal says %q of a task that had come to step %d", happened, found[id], step)
			}
		}
	})
}
