package task

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// WorkFolder is a folder in the agent's state directory. It has a folder for each task that is at work.
const WorkFolder = "tasks"

const (
	slots = 4 // tasks that are at work at the same time
	// most is how many tasks may be at work or wait for the gateway to take their results. With more, the node asks for no work. The result
	// of each may have wire.MaxTaskHead + wire.MaxTaskTail bytes of output in memory, and wire.MaxTaskArchive bytes on the disk.
	most = 16
	// journalPause is the time between two tries to open a journal that cannot be used.
	journalPause = 30 * time.Second
	// idlePause is between two looks whether a task is at work.
	idlePause = time.Second
	// stopTime is for the handlers to end when the agent ends. The service manager kills it a little later.
	stopTime = 8 * time.Second
)

// Config is what a Worker works with.
type Config struct {
	Client   *transport.Client
	State    identity.State // at the start; later it comes with each Wait
	Folder   string         // the agent's state directory
	Policies []string       // files, the first that is there counts
	Handle   func(ctx context.Context, job Job) Outcome
	// Session opens a session. Its document was verified, and nothing else of it was checked. It returns at once.
	Session func(state identity.State, payload wire.TaskPayload, key ed25519.PublicKey)
	News    func() // the gateway has something to say with the next heartbeat; it returns at once. Nil: nobody is told
	Logger  *slog.Logger
}

// Worker does tasks. Wait is called from one goroutine. The other methods are safe for concurrent use.
type Worker struct {
	Config
	slots   chan struct{} // holds one for each task that is at work
	door    chan struct{} // holds one while Wait, or who has called Hold, is inside
	ready   chan struct{} // closed when there is a journal, and what was left of an earlier run goes on
	journal *journal      // nil before that
	life    context.Context
	end     context.CancelCauseFunc
	running sync.WaitGroup
	lost    atomic.Int64      // slots of handlers that were given up, and have not come back
	backoff transport.Backoff // of the wait
	pause   time.Time         // the next wait begins no earlier
	heard   atomic.Bool       // the gateway has answered a wait
	asked   atomic.Int64      // results that the gateway has not taken yet
	full    atomic.Bool       // the disk takes no journal now, and so nothing is asked for

	mu      sync.Mutex
	turns   []*turn       // of the tasks that are at work
	freed   chan struct{} // closed when a turn ends
	state   identity.State
	trouble map[string]string // notices, by what they are about
}

// New makes a Worker. It begins with nothing before Run.
func New(c Config) *Worker {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.News == nil {
		c.News = func() {}
	}
	w := &Worker{
		Config: c, slots: make(chan struct{}, slots), door: make(chan struct{}, 1), ready: make(chan struct{}), state: c.State,
		freed: make(chan struct{}), trouble: map[string]string{},
	}
	w.life, w.end = context.WithCancelCause(context.Background())
	return w
}

// Run goes on with the tasks of an earlier run of the agent, and with those that Wait brings, until ctx is done. Then it asks the
// handlers to end, and waits for them for a while.
func (w *Worker) Run(ctx context.Context) error {
	for !w.resume() {
		if !transport.Sleep(ctx, journalPause) {
			return nil
		}
	}
	close(w.ready)
	<-ctx.Done()
	w.end(errStops)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.running.Wait()
	}()
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		w.Logger.Warn("a task does not end: the next run of the agent reports it as interrupted")
	}
	w.journal.close()
	return nil
}

// Hold keeps new tasks out until release is called, if no task is at work. It returns false if a task is at work, or if ctx is done before
// that is known. It does not cut off a Wait that goes on: it waits for its end.
func (w *Worker) Hold(ctx context.Context) (release func(), ok bool) {
	if !w.isReady(ctx) || !enter(ctx, w.door) {
		return nil, false
	}
	if len(w.slots) > 0 {
		w.goOut()
		return nil, false
	}
	return w.goOut, true
}

// Idle keeps new tasks out for good, and waits until none is at work: for what ends this process. It does not wait for a handler that was
// given up: ending this process may be the only remedy then. It returns false if ctx is done before.
func (w *Worker) Idle(ctx context.Context) bool {
	if !w.isReady(ctx) || !enter(ctx, w.door) {
		return false
	}
	for int64(len(w.slots)) > w.lost.Load() {
		if !transport.Sleep(ctx, idlePause) {
			w.goOut()
			return false
		}
	}
	return true
}

// Answered reports whether the gateway has provably answered a wait of this worker. If the disk is full or read-only it asks for
// nothing, as no other version would: that counts as well.
func (w *Worker) Answered() bool { return w.heard.Load() || w.full.Load() }

// enter waits until there is room for one more. It reports false if ctx was done before.
func enter(ctx context.Context, room chan<- struct{}) bool {
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *Worker) goOut() { <-w.door }

// resume opens the journal, takes up what an earlier run has left, and removes the folders that nobody needs any more. It reports false
// where the journal cannot be used: then nothing may be done.
func (w *Worker) resume() bool {
	j, err := openJournal(filepath.Join(w.Folder, JournalFile), w.Client.Now, nil)
	w.noteJournal(err)
	if err != nil {
		return false
	}
	if j.damaged > 0 {
		w.Logger.Warn("the journal of tasks was damaged: nothing that it had accepted is begun", "lines", j.damaged)
	}
	w.journal = j
	left := j.unreported()
	kept := map[string]bool{}
	for _, e := range left {
		kept[e.Task] = e.Step == stepFinished && e.Archive != ""
	}
	folder := filepath.Join(w.Folder, WorkFolder)
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if !kept[entry.Name()] {
			_ = os.RemoveAll(filepath.Join(folder, entry.Name()))
		}
	}
	for _, e := range left {
		w.Logger.Info("going on with a task of before", "task", e.Task, "step", e.Step)
		free := func() {}
		if e.Step == stepAccepted { // there are no more of them than slots
			w.slots <- struct{}{}
			free = func() { <-w.slots }
		}
		w.begin(e, free)
	}
	return true
}

// Notices returns what a person should know.
func (w *Worker) Notices() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, about := range []string{"journal", "policy", "task"} {
		if text := w.trouble[about]; text != "" {
			all = append(all, text)
		}
	}
	return all
}

// noteJournal says in a notice that the journal cannot be used; nil: it can.
func (w *Worker) noteJournal(err error) {
	w.full.Store(disk.TakesNothing(err))
	text := ""
	if err != nil {
		text = fmt.Sprintf("no tasks are taken, since what is begun could not be noted in %s: %v", JournalFile, disk.Advise(err))
	}
	w.note("journal", text)
}

// note sets a notice, and logs it where it is new. An empty text ends it.
func (w *Worker) note(about, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text != "" && w.trouble[about] != text {
		w.Logger.Warn(text)
	}
	w.trouble[about] = text
}

// identity is the newest state of the identity that a Wait came with.
func (w *Worker) identity() identity.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// learn takes over the newest state of the identity. Newer keys may verify what was refused before.
func (w *Worker) learn(state identity.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !bytes.Equal(state.Gateway.Trust, w.state.Gateway.Trust) {
		w.pause = time.Time{}
	}
	w.state = state
}

// Steps returns the tasks that the journal remembers, with how far each came; nil: it is not open yet.
func (w *Worker) Steps() map[string]string {
	select {
	case <-w.ready:
		return w.journal.steps()
	default:
		return nil
	}
}
