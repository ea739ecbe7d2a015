package logs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/transport"
	"muster/agent/spool"
	"muster/agent/wire"
)

// Place is how far a source was read. If a place is too old, some lines are sent twice.
type Place struct {
	Since time.Time `json:"since"` // of the last line
	After string    `json:"after"` // the source's own word for it; empty: it has none
}

// progress is what a run leaves for the next one.
type progress struct {
	wire.LogShipping
	Places map[string]Place `json:"places"`
}

// places are how far the sources were read. They are safe for concurrent use.
type places struct {
	want *wire.LogShipping

	news  chan struct{} // there is something to save
	mu    sync.Mutex
	at    map[string]Place
	dirty bool
}

// load gives what the last run left; nil: nothing that can be read.
func (s *Shipper) load() *progress {
	text, err := os.ReadFile(s.path("state.json"))
	var r progress
	if err != nil || json.Unmarshal(text, &r) != nil {
		return nil
	}
	return &r
}

// places gives where each wanted source goes on. A new one begins now.
func (s *Shipper) places(want *wire.LogShipping) *places {
	p := &places{want: want, news: make(chan struct{}, 1), at: map[string]Place{}, dirty: true}
	before := s.load()
	now := time.Now().UTC()
	for _, source := range want.Sources {
		p.at[source] = Place{Since: now}
		if before == nil {
			continue
		}
		if was, known := before.Places[source]; known {
			p.at[source] = was
		}
	}
	return p
}

func (p *places) of(source string) Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[source]
}

func (p *places) note(source string, at Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[source] = at
	p.changed()
}

// changed wakes who saves. The lock is held.
func (p *places) changed() {
	p.dirty = true
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// save writes the places until ctx ends, where they have changed.
func (s *Shipper) save(ctx context.Context, p *places, box *spool.Spool) {
	for ctx.Err() == nil {
		s.store(p, box)
		transport.Sleep(ctx, saving)
		select {
		case <-ctx.Done():
		case <-p.news:
		}
	}
}

// store writes the places. What was read up to them is on the disk before: else a power cut would lose lines that nobody reads again.
func (s *Shipper) store(p *places, box *spool.Spool) {
	p.mu.Lock()
	dirty := p.dirty
	p.dirty = false
	text, err := json.Marshal(progress{*p.want, maps.Clone(p.at)})
	p.mu.Unlock()
	if !dirty || err != nil {
		return
	}
	err = errors.Join(os.MkdirAll(s.path("."), 0o700), box.Sync())
	if err == nil {
		err = disk.ReplaceSoon(s.path("state.json"), text, 0o600)
	}
	if err != nil {
		p.mu.Lock()
		p.changed() // a full disk may have room later
		p.mu.Unlock()
	}
}

// left reports whether an earlier time has left something.
func (s *Shipper) left() bool {
	_, err := os.Lstat(s.path("."))
	return !errors.Is(err, fs.ErrNotExist)
}

// forget deletes all that was kept.
func (s *Shipper) forget() {
	if err := os.RemoveAll(s.path(".")); err != nil {
		s.Logger.Warn("old log lines that nobody wants stay on the disk", "error", err)
	}
}
