// Package nodeurl keeps the URLs by which nodes reach the gateways on one store. Nodes are told all of them, and go to the next one when
// a gateway does not answer. The list lies in the store: after a takeover the new active gateway tells the same, and shows a certificate
// for all of them, from its first answer on.
package nodeurl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cluster/peer"
	"muster/store"
)

const (
	// metaKey is where the list lies in the store.
	metaKey = "gateway_urls"
	// lookEvery is between two looks at the gateways that stand by.
	lookEvery = 5 * time.Second
	// forgetAfter is how long a gateway may be silent before its URL leaves the list.
	forgetAfter = 7 * 24 * time.Hour
	// noteEvery is how old the stored time of a gateway's last word may be: it is not worth more writes.
	noteEvery = time.Hour
)

// Config says what a List works with.
type Config struct {
	Store    *store.Store
	ID       string                 // of this gateway
	URL      string                 // by which nodes reach it; empty: nobody gave one
	Standing func() []peer.Standing // the gateways that stand by
	Changed  func(hosts []string)   // told at the start and after each change, of the hosts of all URLs
	Now      func() time.Time       // nil: time.Now
	Logger   *slog.Logger
}

// List has the URLs of all gateways. It is safe for concurrent use. It is nil on a gateway that shares no store.
type List struct {
	Config
	urls    atomic.Pointer[[]string]
	known   []entry // by id
	unsaved bool    // the store has another list
}

// entry is one gateway in the list.
type entry struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Heard int64  `json:"heard"` // Unix milliseconds
}

// Open reads the list, and puts this gateway into it.
func Open(ctx context.Context, c Config) (*List, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	l := &List{Config: c}
	text, err := c.Store.Meta(ctx, metaKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("read the gateways' URLs: %w", err)
	}
	if err == nil && json.Unmarshal([]byte(text), &l.known) != nil {
		l.Logger.Warn("the gateways' URLs in the store cannot be read: they are collected anew")
		l.known = nil
	}
	l.look(ctx)
	l.tell()
	return l, nil
}

// URLs returns the URLs to which nodes may go, this gateway's own first. If there is one gateway only, it returns none.
func (l *List) URLs() []string {
	if l == nil {
		return nil
	}
	return *l.urls.Load()
}

// Run follows the gateways that stand by, until ctx ends.
func (l *List) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if l.look(ctx) {
			l.tell()
		}
	}
}

// look brings the list up to date, and reports whether a URL has come or gone.
func (l *List) look(ctx context.Context) (changed bool) {
	now := l.Now()
	changed = l.heard(l.ID, l.URL, now)
	for _, one := range l.Standing() {
		changed = l.heard(one.ID, one.Nodes, now) || changed
	}
	before := len(l.known)
	l.known = slices.DeleteFunc(l.known, func(e entry) bool { return now.Sub(time.UnixMilli(e.Heard)) > forgetAfter })
	changed = changed || len(l.known) != before
	if changed || l.unsaved {
		l.save(ctx)
	}
	return changed
}

// heard notes that a gateway is there. It reports whether its URL is another one than before.
func (l *List) heard(id, text string, now time.Time) (changed bool) {
	var given string
	if good := wire.Gateways([]string{text}); len(good) == 1 {
		given = good[0]
	}
	at, found := slices.BinarySearchFunc(l.known, id, func(e entry, id string) int { return strings.Compare(e.ID, id) })
	switch {
	case !found && given == "":
		return false
	case !found:
		l.known = slices.Insert(l.known, at, entry{id, given, now.UnixMilli()})
		return true
	case given == "":
		l.known = slices.Delete(l.known, at, at+1)
		return true
	}
	e := &l.known[at]
	changed = e.URL != given
	e.URL = given
	if now.Sub(time.UnixMilli(e.Heard)).Abs() > noteEvery {
		e.Heard = now.UnixMilli()
		l.unsaved = true
	}
	return changed
}

// save writes the list. What fails is tried again with the next look.
func (l *List) save(ctx context.Context) {
	text, err := json.Marshal(l.known)
	if err == nil {
		err = l.Store.SetMeta(ctx, metaKey, string(text))
	}
	l.unsaved = err != nil
	if err != nil && ctx.Err() == nil {
		l.Logger.Warn("the gateways' URLs could not be stored", "error", err)
	}
}

// tell publishes the list.
func (l *List) tell() {
	var all, hosts []string
	for _, e := range l.known {
		if e.ID == l.ID {
			all = append([]string{e.URL}, all...)
		} else {
			all = append(all, e.URL)
		}
	}
	all = wire.Gateways(all)
	for _, text := range all {
		if u, err := url.Parse(text); err == nil {
			hosts = append(hosts, u.Hostname())
		}
	}
	l.Changed(hosts)
	if len(all) < 2 {
		all = nil
	}
	l.urls.Store(&all)
}
