package seen_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/datadir/seen"
	"muster/store/instance"
)

// shared is a gateway's data directory beside a store that it shares.
type shared struct {
	gateway
	*seen.Shared
}

func (g gateway) shares(data string) shared {
	g.t.Helper()
	db := g.store(g.database())
	g.t.Cleanup(func() { db.Close() })
	return shared{gateway{g.t, data}, seen.Share(data, db.Records(), slog.New(slog.DiscardHandler))}
}

// ended is a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	return ctx
}

func (s shared) refuses(fence, beat int64, want string) {
	s.t.Helper()
	err := s.Judge(s.t.Context(), fence, beat, true)
	if !errors.Is(err, seen.ErrOther) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "muster restore") {
		s.t.Errorf("%d, %d: got %v, want %s", fence, beat, err, want)
	}
}

// TestShared: a gateway knows the store again after a start, whether it was active or stood by. It takes it when its lease has gone on, and
// refuses it as it was before, and another one. A store that was restored has a fence above all, and is taken.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := gateway{t, t.TempDir()}
		active, standby := there.shares(t.TempDir()), there.shares(t.TempDir())
		take := func(s shared, fence, beat int64) {
			t.Helper()
			must(t, s.Judge(t.Context(), fence, beat, false))
		}
		take(standby, 0, 0) // nobody has it yet
		take(standby, 1, 1)
		take(active, 1, 1)
		db := there.store(there.database())
		defer db.Close()
		beat := int64(1)
		w, err := active.Begin(t.Context(), db, func() (int64, int64) { beat++; return 1, beat })
		must(t, err)
		for range 10 {
			time.Sleep(3 * time.Second)
			must(t, w.Run(ended(t)))
			take(standby, 1, beat)
		}
		name, _, err := instance.New(db.Records()).Read(t.Context())
		must(t, err)
		for _, s := range []shared{active, standby} {
			s = there.shares(s.data)
			if known, fence := seen.Last(s.data); known != name || name == "" || fence != 1 {
				t.Errorf("it knows %q, %d", known, fence)
			}
			s.refuses(1, beat-3, "a copy from before")
			s.refuses(0, 0, "a copy from before")
			take(s, 1, beat)
			take(s, 2, 1)
			s.refuses(1, beat+100, "a copy from before")
		}
		must(t, instance.New(db.Records()).Fork(t.Context(), 0))
		take(there.shares(standby.data), 1000, 1)
		must(t, instance.New(db.Records()).Name(t.Context(), "another"))
		there.shares(standby.data).refuses(2000, 1, "another gateway")
		must(t, os.Remove(filepath.Join(standby.data, "muster.seen")))
		take(there.shares(standby.data), 1, 1)
	})
}

// TestMoved: a directory whose gateway has used a shared store since does not start with its own database, until that is its own again.
func TestMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateway{t, t.TempDir()}
		must(t, g.starts(time.Minute))
		time.Sleep(time.Second)
		must(t, gateway{t, t.TempDir()}.shares(g.data).Judge(t.Context(), 5, 1, true))
		for range 2 {
			if err := g.starts(time.Minute); !errors.Is(err, seen.ErrOther) || !strings.Contains(err.Error(), "muster store copy") {
				t.Errorf("got %v", err)
			}
		}
		must(t, seen.Own(g.data))
		must(t, seen.Own(g.data))
		must(t, g.starts(time.Minute))
		must(t, seen.Own(t.TempDir()))
	})
}

// TestBothNotes: what a directory knows of its own database and of a shared store stand beside each other.
func TestBothNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateway{t, t.TempDir()}
		must(t, g.starts(time.Minute))
		pulse := seen.Pulse(g.data)
		must(t, gateway{t, t.TempDir()}.shares(g.data).Judge(t.Context(), 5, 1, true))
		if _, fence := seen.Last(g.data); fence != 5 || seen.Pulse(g.data) != pulse || pulse == 0 {
			t.Errorf("it knows %d of the store and %d of its own database", fence, seen.Pulse(g.data))
		}
		must(t, g.starts(time.Minute))
		if _, fence := seen.Last(g.data); fence != 5 || seen.Pulse(g.data) <= pulse {
			t.Errorf("it knows %d of the store and %d of its own database", fence, seen.Pulse(g.data))
		}
	})
}
