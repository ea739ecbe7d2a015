package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
)

// TestLoopsEndInOrder: a loop is told to end only when the loop behind it has ended.
func TestLoopsEndInOrder(t *testing.T) {
	t.Parallel()
	failure := errors.New("broken")
	for _, test := range []struct {
		name string
		last func(context.Context) error
		want string
		told bool
	}{
		{"told to", func(ctx context.Context) error { <-ctx.Done(); return nil }, "", true},
		{"one fails", func(context.Context) error { return failure }, failure.Error(), false},
		{"one ends", func(context.Context) error { return nil }, `"last" of the agent ended by itself`, false},
		{"a task asks", func(context.Context) error { return errRestart }, errRestart.Error(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended []string
				slow := func(name string) loop {
					return loop{name, func(ctx context.Context) error {
						<-ctx.Done()
						if told := context.Cause(ctx) == context.Canceled; told != test.told {
							t.Errorf("it ends because of %v", context.Cause(ctx))
						}
						time.Sleep(time.Second) // the clock of the bubble
						ended = append(ended, name)
						return nil
					}}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := runLoops(ctx, []loop{slow("first"), slow("second"), {"last", test.last}})
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("%v, want %q", err, test.want)
				}
				if want := []string{"second", "first"}; !slices.Equal(ended, want) {
					t.Errorf("ended %q, want %q", ended, want)
				}
				if early := time.Since(began) < time.Hour; early == (test.want == "") {
					t.Errorf("ended after %s", time.Since(began))
				}
			})
		})
	}
}

func TestGPUInterval(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		gpus, beats time.Duration
		gateway     int // seconds
		want        time.Duration
	}{
		{0, 0, 0, 30 * time.Second}, {0, 0, 30, 30 * time.Second}, {0, 0, 300, 5 * time.Minute}, {0, 2 * time.Minute, 30, 2 * time.Minute},
		{0, time.Hour, 30, time.Hour}, {0, 100 * time.Millisecond, 30, time.Second}, {5 * time.Second, 10 * time.Minute, 30, 5 * time.Second},
		{10 * time.Minute, 5 * time.Second, 30, 10 * time.Minute},
	} {
		var a foreground
		a.Interval = test.beats
		a.GPUInterval = test.gpus
		if got := a.gpuInterval(identity.State{Gateway: identity.Gateway{IntervalSeconds: test.gateway}}); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
