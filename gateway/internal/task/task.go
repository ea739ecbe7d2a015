// Package task is the queue by which work goes to the nodes: it queues tasks, gives each to the one identity that claims it, takes what the
// task writes and how it ended, and ends tasks that cannot end by themselves.
//
// The database is the truth, and its statements decide: one of them claims a task, with all conditions in it. What is in memory are
// hints: for which nodes there may be work, so that thousands of waits cost no query, and bells for those who wait for something.
package task

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/store"
)

const (
	sweepEvery = 5 * time.Second
	lookAgain  = 5 * time.Second  // between two looks for a node whose tasks cannot be given out now
	again      = 10 * time.Second // a task that was given out and not begun for so long is given out again: the answer was lost
	deliveries = 10               // of one task
	repeats    = 2                // of a lost task whose type allows it
)

// byGateway is the actor of what nobody asked for.
const byGateway = "gateway"

// Config says what a Service works with.
type Config struct {
	Store  *store.Store
	Sign   func(payload []byte) (wire.SignedTask, error) // with the gateway's own task key
	Keys   func() []ed25519.PublicKey                    // the task keys that nodes believe now
	Digest func(context.Context, Tag) (string, error)    // the digest that a tag stands for now; nil: no registry is asked
	Now    func() time.Time                              // nil: time.Now
	Logger *slog.Logger                                  // nil: none
	// CountAgain counts an event that comes too often, and then returns true: the Service does not record it. Nil: it records every event.
	CountAgain func(context.Context, store.Event) bool
	// Moved is called for changes that make no event: a task was given out, or its node has begun. It must not wait. Nil: nobody is told.
	Moved func(nodeID, taskID string)
}

// Service is safe for concurrent use.
type Service struct {
	Config
	may       func(nodeID string, p wire.TaskParams, by store.Actor) error // as UseBy says
	mu        sync.Mutex                                                   // guards all below
	waiting   map[string]hint                                              // by node
	counts    uint64                                                       // how often tasks were counted
	waits     map[string]chan struct{}                                     // by node: the bell of its wait, closed to end it
	reports   map[string]bool                                              // nodes whose wait is to end so that they report
	followers map[string]map[chan struct{}]bool                            // by task: the bells of those who read what it writes
	stopped   bool
	stopping  chan struct{} // closed with stopped

	heard    map[string]time.Time // by task: when its node last said something of it, for a lease at least
	upSince  time.Time            // since when the gateway has been at work without a pause
	lookedAt time.Time            // when the last sweep was
}

// hint is how many tasks wait for a node, by the count with this number.
type hint struct {
	tasks  int
	number uint64
}

// New makes a Service. It reads from the database which nodes have tasks waiting.
func New(ctx context.Context, c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Now = wall(c.Now)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Moved == nil {
		c.Moved = func(string, string) {}
	}
	waiting, err := c.Store.WaitingTasks(ctx, "")
	if err != nil {
		return nil, err
	}
	hints := map[string]hint{}
	for node, tasks := range waiting {
		hints[node] = hint{tasks: tasks}
	}
	now := c.Now()
	return &Service{Config: c, waiting: hints, waits: map[string]chan struct{}{}, reports: map[string]bool{},
		followers: map[string]map[chan struct{}]bool{},
		stopping:  make(chan struct{}), heard: map[string]time.Time{}, upSince: now, lookedAt: now}, nil
}

// wall makes a clock that gives the time of day alone. Between two times of time.Now, Sub gives how long the machine was at work: it does
// not see that the clock was set, nor that a machine slept.
func wall(now func() time.Time) func() time.Time {
	return func() time.Time { return now().Round(0) }
}

// Run ends what is overdue, and queues lost tasks anew where their type allows that, until ctx ends. Then it ends all waits, and nobody
// waits any more.
func (d *Service) Run(ctx context.Context) error {
	defer d.stop()
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := d.Sweep(ctx); err != nil && ctx.Err() == nil {
				d.Logger.Error("tasks that are overdue stay open", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// stop ends all waits and all reading of output.
func (d *Service) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	d.stopped = true
	close(d.stopping)
	for node, bell := range d.waits {
		close(bell)
		delete(d.waits, node)
	}
}

// Sweep ends tasks that are overdue, and repeats lost ones.
func (d *Service) Sweep(ctx context.Context) error {
	ended, err := d.Store.SweepTasks(ctx, d.overdue())
	for _, t := range ended {
		d.ringFollowers(t.ID)
		err = errors.Join(err, d.recount(ctx, t.NodeID))
	}
	return errors.Join(err, d.repeatLost(ctx))
}

// overdue says which tasks are overdue now. A lease ends only when the gateway was there for all of it: a node cannot be heard by a
// gateway that is away.
func (d *Service) overdue() store.TaskSweep {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Now()
	if pause := now.Sub(d.lookedAt); pause > time.Minute || pause < -time.Minute {
		d.upSince = now
	}
	d.lookedAt = now
	q := store.TaskSweep{At: now, Begun: now.Add(-wire.MaxTaskLife), Delivered: now.Add(-again), Deliveries: deliveries}
	silent := now.Add(-wire.TaskLease)
	maps.DeleteFunc(d.heard, func(_ string, at time.Time) bool { return at.Before(silent) })
	if !d.upSince.After(silent) {
		q.Silent = silent
		q.Heard = slices.Collect(maps.Keys(d.heard))
	}
	return q
}

// hear notes that a node knows of its task. A node that works on one says so every wire.TaskPulse, and insists on its result.
func (d *Service) hear(taskID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard[taskID] = d.Now()
}

// Task returns a task of a tenant ("": of any).
func (d *Service) Task(ctx context.Context, tenant, id string) (store.Task, error) {
	t, err := d.Store.Task(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return t, noTask(id)
	}
	return t, err
}

// Tasks returns one page of tasks, newest first, and the cursor of the next page.
func (d *Service) Tasks(ctx context.Context, q store.TaskQuery) (tasks []store.Task, next string, err error) {
	tasks, next, err = d.Store.Tasks(ctx, q)
	if errors.Is(err, store.ErrBadCursor) {
		return nil, "", wire.Refuse(wire.CodeBadRequest, "the cursor is not one of this list", "start again without one")
	}
	return tasks, next, err
}

// Cancel ends a task that waits, and asks the node to end one that it has. A second call changes nothing. It refuses a task that has ended.
func (d *Service) Cancel(ctx context.Context, tenant, id string, by store.Actor) (store.Task, error) {
	t, err := d.Task(ctx, tenant, id)
	if err != nil {
		return t, err
	}
	err = d.Store.AskCancel(ctx, id, d.Now(), by)
	if errors.Is(err, store.ErrConflict) {
		if t, err = d.Task(store.Fresh(ctx), tenant, id); err == nil && t.Status != wire.TaskCanceled {
			err = wire.Refuse(wire.CodeTaskFinished, "this task has ended already: "+t.Status, "muster task show "+id)
		}
		return t, err
	}
	if err != nil {
		return t, err
	}
	d.ringFollowers(id)
	if err := d.recount(ctx, t.NodeID); err != nil {
		return t, err
	}
	return d.Task(ctx, tenant, id)
}

func noTask(id string) error {
	return wire.Refuse(wire.CodeNotFound, "there is no task "+id, "muster task ls")
}

// record writes an event that stands alone. The caller gets no error: what the event is about has happened.
func (d *Service) record(ctx context.Context, e store.Event) {
	if d.CountAgain != nil && d.CountAgain(ctx, e) {
		return
	}
	if err := d.Store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
		d.Logger.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}
