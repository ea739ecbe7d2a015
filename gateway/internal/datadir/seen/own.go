package seen

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"muster/agent/disk"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
	"muster/store"
	"muster/store/instance"
)

// Pulse returns the number that the database in a data directory has reached at least; 0: that is not known.
func Pulse(data string) int64 {
	n, _ := place{data: data}.read()
	return n.Pulse
}

// LookAgain does what Look does, for a copy of the database into a shared store, which may be made again.
func LookAgain(ctx context.Context, data string) error {
	if c, _ := read(data); c.Shared != nil && c.Shared.Fence == 0 {
		return nil // nothing has worked here since the copy before
	}
	_, err := Look(ctx, data, nil)
	return err
}

// Leave notes that the database in a directory was copied into a shared store, which its gateway uses from now on.
func Leave(data string) error {
	c, _ := read(data)
	if c.Shared == nil {
		c.Shared = &note{}
	}
	c.Shared.At = time.Now()
	return write(data, c, disk.Replace)
}

// Look recognises the database in a data directory before anybody opens it, and changes nothing. It refuses a database that was copied
// there.
func Look(ctx context.Context, data string, log *slog.Logger) (*Watch, error) {
	if err := Moved(data); err != nil {
		return nil, err
	}
	w := &Watch{place: place{data: data}, log: log}
	name, pulse, err := instance.InFile(ctx, filepath.Join(data, datadir.Database))
	if errors.Is(err, store.ErrDamaged) { // who opens it says more
		return w, nil
	}
	if err != nil {
		return nil, err
	}
	w.now = note{Instance: name, Pulse: pulse, At: time.Now()}
	had, there := w.place.read()
	if name == "" && pulse == 0 && had.Pulse > 0 {
		return nil, fmt.Errorf("the database of %s is gone, and an empty one is in its place: bring a backup back with muster restore FILE "+
			"--data %s --force, or remove %s to begin anew", data, paste.Quote(data), filepath.Join(data, file))
	}
	why := had.differs(w.now)
	if name != "" && !there {
		why = "it was copied here: this directory has never had it"
	}
	if why != "" {
		database := filepath.Join(data, datadir.Database)
		return nil, fmt.Errorf("%s: %w: %s. What happened since would be undone in silence, so bring it in as a restore: move it away with "+
			"the files beside it (mkdir /tmp/copy && mv %s* /tmp/copy), and give muster restore /tmp/copy/%s --data %s; muster help backup",
			database, ErrOther, why, paste.Quote(database), datadir.Database, paste.Quote(data))
	}
	return w, nil
}

// Moved returns an ErrOther if the database of a directory is out of date: its gateway has used a shared store since, or the database was
// copied into one.
func Moved(data string) error {
	c, _ := read(data)
	if c.Shared == nil || !c.Shared.At.After(c.At) {
		return nil
	}
	what := "this gateway has used a store that it shares with others until "
	if c.Shared.Fence == 0 {
		what = "this database was copied into a store that gateways share, on "
	}
	return fmt.Errorf("%s: %w: %s%s, and what is here is from before. Add --store as it was; or bring the store back into this directory "+
		"(muster store copy rqlite://... %s --force). If the store is gone, bring in what is here as a restore (muster restore %s --data %s "+
		"--force). muster help standby", data, ErrOther, what, c.Shared.At.UTC().Format(time.RFC3339), paste.Quote(data),
		paste.Quote(filepath.Join(data, datadir.Database)), paste.Quote(data))
}

// Own notes that the database in a directory is again the one that its gateway uses, and no shared store is.
func Own(data string) error {
	c, there := read(data)
	if !there || c.Shared == nil {
		return nil
	}
	c.Shared = nil
	return write(data, c, disk.Replace)
}

// Begin works with the database that Look has recognised, and gives it a name if it has none.
func (w *Watch) Begin(ctx context.Context, db *store.Store) error {
	records := instance.New(db.Records())
	w.next = func(ctx context.Context, now note) (note, error) {
		now.Pulse++
		return now, records.Pulse(ctx, now.Pulse)
	}
	if w.now.Instance != "" {
		return w.place.write(w.now, disk.ReplaceSoon)
	}
	had, _ := w.place.read()
	w.now.Instance = cmp.Or(had.Instance, rand.Text())
	if err := w.place.write(w.now, disk.Replace); err != nil { // first the file: a database with a name and without a file counts as a copy
		return err
	}
	return records.Name(ctx, w.now.Instance)
}
