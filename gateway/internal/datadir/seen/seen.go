// Package seen knows the database that a data directory has had, by a file beside it. So a copy of a database that was put in place by
// hand, or by a program that copies it all the time, is not taken for the database itself: what happened after the copy would be undone,
// and nobody would hear of it. A one-use token would be good again. Of a store that several gateways share, each one's data directory knows
// it in the same way.
package seen

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"muster/agent/disk"
)

// ErrOther says that a database is not the one that a directory has had, or is older than that.
var ErrOther = errors.New("this database cannot be used as it is")

// file is the file's name in the data directory.
const file = "muster.seen"

// pulseEvery is how often the file is written.
const pulseEvery = 2 * time.Second

// note is what a directory knows of a database.
type note struct {
	Instance string    `json:"instance"`
	Fence    int64     `json:"fence,omitempty"` // of a shared store: that of its lease, which comes before the pulse
	Pulse    int64     `json:"pulse"`           // a number that the database had, and so has still; of a shared store the lease's beat
	At       time.Time `json:"at"`              // when that was, for people
}

// content is that of the file.
type content struct {
	note
	Shared *note `json:"shared,omitempty"` // of the store that the gateway shares with others
}

// place is where a note stands.
type place struct {
	data   string
	shared bool
}

// read reads the file. A power cut can leave an empty one: that says nothing, as no file does.
func read(data string) (c content, there bool) {
	text, err := os.ReadFile(filepath.Join(data, file))
	if err != nil {
		return c, !errors.Is(err, os.ErrNotExist)
	}
	if json.Unmarshal(text, &c) != nil {
		return content{}, true
	}
	return c, true
}

func (p place) read() (n note, there bool) {
	c, there := read(p.data)
	switch {
	case !p.shared:
		return c.note, there
	case c.Shared == nil:
		return note{}, false
	}
	return *c.Shared, true
}

// write leaves the other note as it is.
func (p place) write(n note, how func(path string, content []byte, mode os.FileMode) error) error {
	c, _ := read(p.data)
	if p.shared {
		c.Shared = &n
	} else {
		c.note = n
	}
	return write(p.data, c, how)
}

func write(data string, c content, how func(path string, content []byte, mode os.FileMode) error) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return how(filepath.Join(data, file), append(text, '\n'), 0o600)
}

// differs says why a database that is so now is not the one that was seen; "": it can be that one.
func (n note) differs(now note) string {
	switch {
	case n.Instance != "" && now.Instance != "" && n.Instance != now.Instance:
		return "it is that of another gateway"
	case now.Fence < n.Fence || now.Fence == n.Fence && now.Pulse < n.Pulse:
		return "it is a copy from before " + n.At.UTC().Format(time.RFC3339) + ", when this directory's own was last written"
	}
	return ""
}

// Watch keeps the file of a data directory.
type Watch struct {
	place place
	now   note
	next  func(context.Context, note) (note, error) // what the database has now
	log   *slog.Logger
}

// Run writes the file until ctx ends, and once more then.
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

// pulse writes what the database has: what the file says, the database had before.
func (w *Watch) pulse(ctx context.Context) error {
	now, err := w.next(ctx, w.now)
	if err != nil {
		return err
	}
	now.At = time.Now()
	w.now = now
	return w.place.write(now, disk.ReplaceSoon)
}
