package daemon_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/httpserver/daemon"
)

// journal notes what parts do, in order.
type journal struct{ lines chan string }

func newJournal() journal { return journal{make(chan string, 100)} }

func (j journal) all() []string {
	close(j.lines)
	var lines []string
	for line := range j.lines {
		lines = append(lines, line)
	}
	return lines
}

// part goes on until its context ends, and then takes a while.
func (j journal) part(name string, takes time.Duration) daemon.Part {
	return daemon.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		j.lines <- name + " is asked to end"
		time.Sleep(takes)
		j.lines <- name + " has ended"
		return ctx.Err()
	}}
}

// TestOrder: the parts end one by one, the last first, however long each takes.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- daemon.Run(ctx, j.part("first", 0), j.part("second", time.Hour), j.part("last", time.Minute))
		}()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v", err)
		}
		want := []string{
			"last is asked to end", "last has ended", "second is asked to end", "second has ended", "first is asked to end", "first has ended",
		}
		if got := j.all(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestEarlyEnd: a part that ends before it is asked to ends all others, in their order, and is named.
func TestEarlyEnd(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		gives error
		want  string
	}{
		"a failure":    {broken, "middle: broken"},
		"no error":     {nil, "middle ended before it was asked to"},
		"a cut inside": {context.Canceled, "middle: context canceled"},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := newJournal()
			middle := daemon.Part{Name: "middle", Run: func(context.Context) error { return c.gives }}
			err := daemon.Run(t.Context(), j.part("first", 0), middle, j.part("last", time.Minute))
			if err == nil || err.Error() != c.want || c.gives != nil && !errors.Is(err, c.gives) {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
			want := []string{"last is asked to end", "last has ended", "first is asked to end", "first has ended"}
			if got := j.all(); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		})
	}
}

// TestAllErrors: what goes wrong at the end is said of every part.
func TestAllErrors(t *testing.T) {
	fails := func(name string) daemon.Part {
		return daemon.Part{Name: name, Run: func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("no last flush")
		}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := daemon.Run(ctx, fails("one"), fails("two"))
	for _, want := range []string{"one: no last flush", "two: no last flush"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
