package view_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/view"
)

// taken collects the ids of samples.
type taken struct{ ids []string }

func (t *taken) take(_ context.Context, samples []view.Sample) {
	for _, s := range samples {
		t.ids = append(t.ids, s.NodeID)
	}
}

func beats(from, to int) []view.Sample {
	var out []view.Sample
	for i := from; i < to; i++ {
		out = append(out, view.Sample{NodeID: fmt.Sprint(i), At: time.Now()})
	}
	return out
}

// feed makes one with takers.
func feed(c view.FeedConfig, takers ...func(context.Context, []view.Sample)) *view.Feed {
	f := view.NewFeed(c)
	for _, take := range takers {
		f.Add(take)
	}
	return f
}

// drive runs a feed in a bubble until nothing waits.
func drive(t *testing.T, f *view.Feed, offer func(*view.Feed)) *view.Feed {
	ctx, cancel := context.WithCancel(t.Context())
	offer(f)
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	synctest.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the feed ended with %v", err)
	}
	return f
}

// TestOrder: every taker gets all samples in order, those of several portions too.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second taken
		f := drive(t, feed(view.FeedConfig{}, first.take, second.take), func(f *view.Feed) {
			f.Offer(nil)
			f.Offer(beats(0, 400))
			f.Offer(beats(400, 1000))
		})
		for i := range 1000 {
			if first.ids[i] != fmt.Sprint(i) {
				t.Fatalf("sample %d is of node %s", i, first.ids[i])
			}
		}
		if !slices.Equal(first.ids, second.ids) {
			t.Error("the second taker got something else than the first")
		}
		if lag := f.Behind(); lag.Offered != 1000 || lag.Waiting != 0 || lag.Dropped != 0 || !lag.Since.IsZero() {
			t.Errorf("lag %+v of a feed that keeps up", lag)
		}
	})
}

// TestShare: between two portions the feed leaves the processors to others, but not when it ends.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = 10 * time.Millisecond
		began := make(chan time.Time, 4)
		take := func(context.Context, []view.Sample) {
			began <- time.Now()
			time.Sleep(work)
		}
		f := feed(view.FeedConfig{}, take)
		f.Offer(beats(0, 1000)) // four portions
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		time.Sleep(work)
		synctest.Wait()
		if want := max(8/runtime.GOMAXPROCS(0), 1); want > 1 && len(began) != 1 {
			t.Errorf("%d portions with no rest between them, want one portion in %d times its work", len(began), want)
		}
		time.Sleep(20 * work)
		first := <-began
		if each := (<-began).Sub(first); each != max(time.Duration(8/runtime.GOMAXPROCS(0)), 1)*work {
			t.Errorf("a portion of %s comes %s after the one before", work, each)
		}
		cancel()
		if err := <-ended; err != nil || len(began) != 2 {
			t.Errorf("%d portions beside the first two, then %v", len(began), err)
		}
	})
}

// TestBehind: the oldest are dropped and counted, and the log says once that it began and once that it is over.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got taken
		var log bytes.Buffer
		c := view.FeedConfig{Limit: 300, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		f := drive(t, feed(c, got.take), func(f *view.Feed) {
			f.Offer(beats(0, 200))
			f.Offer(beats(200, 1000))
			if lag := f.Behind(); lag.Waiting != 300 || lag.Dropped != 700 || lag.Since.IsZero() {
				t.Errorf("lag %+v, want 300 that wait and 700 dropped", lag)
			}
		})
		if len(got.ids) != 300 || got.ids[0] != "700" {
			t.Errorf("%d samples from %s on, want the newest 300", len(got.ids), got.ids[0])
		}
		if lag := f.Behind(); !lag.Since.IsZero() || lag.Dropped != 700 {
			t.Errorf("lag %+v after all is taken: the number stays, the time goes", lag)
		}
		if warned := strings.Count(log.String(), "come faster"); warned != 1 {
			t.Errorf("warned %d times:\n%s", warned, &log)
		}
		if over := strings.Count(log.String(), "keep up again"); over != 1 {
			t.Errorf("said %d times that it is over:\n%s", over, &log)
		}
	})
}

// TestLate: heartbeats that wait for too long are told of before any is dropped, in the log too, and until all are taken.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := drive(t, feed(view.FeedConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}), func(f *view.Feed) {
			f.Offer(beats(0, 400))
			time.Sleep(15 * time.Second)
			if lag := f.Behind(); !lag.Since.IsZero() {
				t.Errorf("lag %+v after as long as it may take", lag)
			}
			time.Sleep(time.Second)
			if lag := f.Behind(); lag.Since.IsZero() || lag.Waiting != 400 || lag.Dropped != 0 {
				t.Errorf("lag %+v of a feed that is late", lag)
			}
		})
		if lag := f.Behind(); !lag.Since.IsZero() {
			t.Errorf("lag %+v after all is taken", lag)
		}
		if n := strings.Count(log.String(), "come faster"); n != 1 || !strings.Contains(log.String(), "keep up again") {
			t.Errorf("the log warns %d times:\n%s", n, &log)
		}
	})
}

// TestRest: what was offered before the end is handed on.
func TestRest(t *testing.T) {
	var got taken
	f := feed(view.FeedConfig{}, got.take)
	f.Offer(beats(0, 300))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx); err != nil || len(got.ids) != 300 {
		t.Errorf("%d samples, error %v: want all 300", len(got.ids), err)
	}
}
