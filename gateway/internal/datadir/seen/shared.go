package seen

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/store"
	"muster/store/instance"
)

// Shared is what a data directory knows of the store that its gateway shares with others. The lease of the store counts: its fence goes up
// with each holder, and its beat each second.
type Shared struct {
	place   place
	records instance.Records
	log     *slog.Logger

	mu      sync.Mutex // guards what is below
	now     note
	named   int64     // the fence under which the name was read; -1: it was not
	written time.Time // when the file was
}

// Share reads what a data directory knows of its store.
func Share(data string, db store.Engine, log *slog.Logger) *Shared {
	s := &Shared{place: place{data: data, shared: true}, records: instance.New(store.Records{Engine: db}), log: log, named: -1}
	s.now, _ = s.place.read()
	return s
}

// Last returns the name of the store of a data directory ("": not known), and the highest fence that it has had.
func Last(data string) (name string, fence int64) {
	n, _ := place{data: data, shared: true}.read()
	return n.Instance, n.Fence
}

// Judge takes what the lease says now. It returns an ErrOther if the store is not the one that was seen, or is older. If sure is true, it
// also compares the name when the lease has not changed hands.
func (s *Shared) Judge(ctx context.Context, fence, beat int64, sure bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := note{Instance: s.now.Instance, Fence: fence, Pulse: beat, At: time.Now()}
	if sure || s.named != fence || s.now.Instance == "" {
		name, _, err := s.records.Find(ctx)
		if err != nil {
			return err
		}
		now.Instance = name
	}
	if why := s.now.differs(now); why != "" {
		return fmt.Errorf("%w: %s. What happened since would be undone in silence, and no gateway takes over. If one node of rqlite was put "+
			"back, or had a full disk, stop that node, empty its directory, and let it join again. If all of them were put back, bring in the "+
			"copy that they were put back from: muster restore FILE --force, with the --store flags of this gateway. If this is another store, and it "+
			"shall be used, remove %s. muster help standby", ErrOther, why, filepath.Join(s.place.data, file))
	}
	now.Instance = cmp.Or(now.Instance, s.now.Instance)
	s.now = now
	s.named = fence
	if time.Since(s.written) < pulseEvery {
		return nil
	}
	s.written = now.At
	return s.place.write(now, disk.ReplaceSoon)
}

// Begin works with the store as the active gateway, and gives it a name if it has none. lease gives what its lease has had.
func (s *Shared) Begin(ctx context.Context, db *store.Store, lease func() (fence, beat int64)) (*Watch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, _, err := s.records.Read(store.Fresh(ctx))
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = cmp.Or(s.now.Instance, rand.Text())
		if err := instance.New(db.Records()).Name(ctx, name); err != nil {
			return nil, err
		}
	}
	w := &Watch{place: s.place, now: s.now, log: s.log, next: func(_ context.Context, now note) (note, error) {
		now.Fence, now.Pulse = lease()
		return now, nil
	}}
	w.now.Instance = name
	return w, w.pulse(ctx)
}
