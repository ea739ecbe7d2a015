// Package history keeps what the nodes said: their samples, and roll-ups of them, in a file of its own.
//
// Samples wait in memory until their minute is over. Then each node's minute is one row. In the background the hours that ended are rolled
// up, and what is older than it is kept goes. The file never grows beyond its bound: then the oldest of the finest goes first.
//
// The gateway does its work without this file. If the disk is full, samples are dropped and the log says so. A file that is damaged
// is put aside, and a new one is begun.
package history

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"muster/store"
	"muster/store/history"
)

// Config says where a Store writes, and how much.
type Config struct {
	Path   string
	Bound  int64            // bytes of the file
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger

	// Copy passes minutes that were written to the other gateways on the same database; nil: there are none. Run calls it beside its own
	// work, one call at a time, and it must end when ctx does.
	Copy func(ctx context.Context, minutes []Minute) error
}

// Store is safe for concurrent use.
type Store struct {
	Config

	mu      sync.Mutex
	nodes   map[string]*node
	ended   []ended     // minutes that are over and not written yet, the oldest first
	gone    int         // how many minutes left that list since the start
	waiting int         // samples in ended and in the nodes' minutes
	dropped int         // samples that the file did not take in time
	damaged atomic.Bool // a reader found the file so

	reading sync.RWMutex  // held for reading by those who use file, and for writing to open or close it
	file    *history.File // nil: it is not open
	trouble string        // why the file does not open, as the log said it last
	swept   time.Time     // when the file was last looked through for what is too old
	steady  time.Duration // for how long the clock was not set
	copies  copies
}

// ended is a minute that is over. Its samples name GPUs by their places in the node's list.
type ended struct {
	node *node
	history.Minute
}

// New makes a Store. It opens its file when it runs.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Store{Config: c, nodes: map[string]*node{}, copies: copies{waiting: make(chan []Minute, mostCopies)}}
}

// pace is the time between two turns.
const pace = 5 * time.Second

// Run writes until ctx ends, and then what still waits. It runs once.
func (b *Store) Run(ctx context.Context) error {
	rest := context.WithoutCancel(ctx)
	copying, stop := context.WithCancel(rest)
	given := make(chan struct{})
	go func() {
		defer close(given)
		b.giveCopies(copying)
	}()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		b.Turn(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.endAll(time.Time{})
			b.write(rest)
			err := b.close()
			b.endCopies(stop, given)
			return err
		}
	}
}

// Turn does what is due now, as Run has it done every few seconds. Whatever fails is tried again in the next turn. Nobody may call it
// while Run runs.
func (b *Store) Turn(ctx context.Context) {
	if b.damaged.Load() {
		b.putAside()
	}
	b.open(ctx)
	now := b.Now()
	b.endAll(now)
	if b.file == nil {
		return
	}
	b.write(ctx)
	b.rollUp(ctx, now)
	b.sweep(ctx, now)
}

// open opens the file, unless it is open. A file that cannot be opened is said once, and tried again.
func (b *Store) open(ctx context.Context) {
	if b.file != nil {
		return
	}
	file, err := history.Open(ctx, b.Path, b.Now)
	if errors.Is(err, store.ErrDamaged) {
		b.putAside()
		file, err = history.Open(ctx, b.Path, b.Now)
	}
	if err != nil {
		if ctx.Err() == nil && err.Error() != b.trouble {
			b.trouble = err.Error()
			b.Logger.Error("no history is kept: its file does not open; the gateway does all else", "reason", b.trouble, "file", b.Path)
		}
		return
	}
	b.trouble = ""
	file.Outages(b.tell)
	b.reading.Lock()
	defer b.reading.Unlock()
	b.file = file
	b.resume(ctx)
}

// tell has the log say once that the file takes no writes, and once that it does again.
func (b *Store) tell(err error) {
	if err != nil {
		b.Logger.Error("the history's file takes no writes: samples are dropped when too many wait; the gateway does all else",
			"reason", errors.Unwrap(err), "file", b.Path)
		return
	}
	b.mu.Lock()
	dropped := b.dropped
	b.mu.Unlock()
	b.Logger.Info("the history's file takes writes again", "dropped", dropped)
}

// aside ends the name of a damaged file. There is one at most: a disk that fails must not fill with them.
const aside = ".damaged"

// putAside closes a damaged file and gives it another name, so that the next turn begins a new one.
func (b *Store) putAside() {
	if err := b.close(); err != nil {
		b.Logger.Debug("the damaged history did not close cleanly", "error", err)
	}
	err := os.Rename(b.Path, b.Path+aside)
	for _, beside := range [...]string{"-wal", "-shm"} { // a new file must not find them
		if left := os.Remove(b.Path + beside); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
	}
	b.Logger.Error("the history's file is damaged: it is put aside, and a new one is begun", "file", b.Path+aside, "error", err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.damaged.Store(false)
	for _, n := range b.nodes {
		n.names = history.Names{}
	}
}

func (b *Store) close() error {
	b.reading.Lock()
	defer b.reading.Unlock()
	file := b.file
	b.file = nil
	if file == nil {
		return nil
	}
	return file.Close()
}

// note keeps that the file is damaged, for the next turn. Other errors are said where they are met.
func (b *Store) note(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		b.damaged.Store(true)
	}
	return err
}
