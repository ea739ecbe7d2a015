// Package seen knows the database that a data directory has had, by a file beside it. So a copy of a database that was put in place by
// hand, or by a program that copies it all the time, is not taken for the database itself: what happened after the copy would be undone,
// and nobody would hear of it. A one-use token would be good again.
package seen

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"muster/agent/disk"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
	"muster/store"
	"muster/store/instance"
)

// file is the file's name in the data directory.
const file = "muster.seen"

// pulseEvery is how often the number goes up, in the database and then in the file.
const pulseEvery = 2 * time.Second

// note is the content of the file.
type note struct {
	Instance string    `json:"instance"`
	Pulse    int64     `json:"pulse"` // a number that the database had, and so has still
	At       time.Time `json:"at"`    // when that was, for people
}

// read reads the file. A power cut can leave an empty one: that says nothing, as no file does.
func read(data string) (n note, there bool) {
	text, err := os.ReadFile(filepath.Join(data, file))
	if err != nil {
		return n, !errors.Is(err, os.ErrNotExist)
	}
	if json.Unmarshal(text, &n) != nil {
		return note{}, true
	}
	return n, true
}

// Pulse is the number that the database in a data directory has had at least; 0: that is not known.
func Pulse(data string) int64 {
	n, _ := read(data)
	return n.Pulse
}

// Watch keeps the file of a data directory.
type Watch struct {
	data    string
	records instance.Records
	now     note
	log     *slog.Logger
}

// Open recognises the database of a data directory. It refuses one that was copied there.
func Open(ctx context.Context, data string, db *store.Store, log *slog.Logger) (*Watch, error) {
	w := &Watch{data: data, records: instance.New(db.Records()), log: log}
	name, pulse, err := w.records.Read(ctx)
	if err != nil {
		return nil, err
	}
	had, there := read(data)
	switch {
	case name != "" && !there:
		return nil, w.refuse("it was copied here: this directory has never had it")
	case name != "" && had.Instance != "" && had.Instance != name:
		return nil, w.refuse("it is that of another gateway")
	case name == "" && pulse == 0 && had.Pulse > 0:
		return nil, fmt.Errorf("the database of %s is gone, and an empty one is in its place: bring a backup back with muster restore FILE "+
			"--data %s --force, or remove %s to begin anew", data, paste.Quote(data), filepath.Join(data, file))
	case pulse < had.Pulse:
		return nil, w.refuse(fmt.Sprintf("it is a copy from before %s, when this directory's own was last written",
			had.At.UTC().Format(time.RFC3339)))
	}
	w.now = note{Instance: cmp.Or(name, had.Instance, rand.Text()), Pulse: pulse, At: time.Now()}
	if name != "" {
		return w, w.write(disk.ReplaceSoon)
	}
	if err := w.write(disk.Replace); err != nil { // first the file: a database with a name and without a file counts as a copy
		return nil, err
	}
	return w, w.records.Name(ctx, w.now.Instance)
}

func (w *Watch) refuse(why string) error {
	database := filepath.Join(w.data, datadir.Database)
	return fmt.Errorf("the database %s cannot be used as it is: %s. What happened since would be undone in silence, so bring it in as a "+
		"restore: move it away (mv %s /tmp/copy.db), and give muster restore /tmp/copy.db --data %s; muster help backup", database, why,
		paste.Quote(database), paste.Quote(w.data))
}

func (w *Watch) write(how func(path string, content []byte, mode os.FileMode) error) error {
	text, err := json.Marshal(w.now)
	if err != nil {
		return err
	}
	return how(filepath.Join(w.data, file), append(text, '\n'), 0o600)
}

// Run raises the number until ctx ends, and once more then.
func (w *Watch) Run(ctx context.Context) error {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := w.pulse(ctx); err != nil && ctx.Err() == nil {
				w.log.Error("the newest state of the database is not noted beside it", "error", err)
			}
		case <-ctx.Done():
			return w.pulse(context.WithoutCancel(ctx))
		}
	}
}

// pulse writes the number into the database, and then into the file: what the file says, the database has.
func (w *Watch) pulse(ctx context.Context) error {
	if err := w.records.Pulse(ctx, w.now.Pulse+1); err != nil {
		return err
	}
	w.now.Pulse++
	w.now.At = time.Now()
	return w.write(disk.ReplaceSoon)
}
