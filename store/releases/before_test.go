package releases_test

import (
	"testing"
	"time"

	"muster/store"
	"muster/store/releases"
)

// channelOf is the channel stable.
func channelOf(t *testing.T, r releases.Records) releases.Channel {
	t.Helper()
	all, err := r.Channels(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	return all[0]
}

// TestBefore: a channel goes back to the last release whose rollout came to its end, or to its first one, unless that was stopped.
func TestBefore(t *testing.T) {
	for name, c := range map[string]struct {
		first  string // state of a's rollout when b comes; "": it has none
		second string // state of b's when c comes
		want   string // what c goes back to
	}{
		"all finished":         {releases.Done, releases.Done, "b"},
		"replaced":             {releases.Done, releases.Running, "a"},
		"paused":               {releases.Done, releases.Paused, "a"},
		"halted":               {releases.Done, releases.Halted, "a"},
		"carried, replaced":    {"", releases.Running, "a"},
		"the first, replaced":  {releases.Running, releases.Running, "a"},
		"the first, halted":    {releases.Halted, releases.Running, ""},
		"the first, and a end": {releases.Halted, releases.Done, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := open(t)
			for _, digest := range []string{"a", "b", "c"} {
				must(t, r.AddRelease(t.Context(), release(digest)))
			}
			for i, state := range []string{c.first, c.second} {
				seq := int64(i + 1)
				digest := string(rune('a' + i))
				step := releases.Step{Pointer: pointer("stable", digest, seq), Last: seq - 1}
				if state != "" {
					step.Rollout = rollout("stable", digest, seq)
				}
				must(t, r.Point(t.Context(), step))
				if state != "" && state != releases.Running {
					bring(t, r, state)
				}
			}
			must(t, r.Point(t.Context(), releases.Step{Pointer: pointer("stable", "c", 3), Last: 2, Rollout: rollout("stable", "c", 3)}))
			if got := channelOf(t, r); got.Previous != c.want || got.Finished {
				t.Errorf("got %+v, want %q before it", got, c.want)
			}
		})
	}
}

// bring brings the newest rollout into a state.
func bring(t *testing.T, r releases.Records, state string) {
	t.Helper()
	all, err := r.Rollouts(t.Context())
	must(t, err)
	o := all[0]
	from := o
	o.State = state
	o.EndedAt = nil
	if state == releases.Done {
		o.EndedAt = &o.CreatedAt
	}
	must(t, r.ChangeRollout(t.Context(), o, from, nil))
}

// TestFinished: what was gone back to counts as finished, and a rollout that is done can still be halted, unless a later one has come.
func TestFinished(t *testing.T) {
	r, _ := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.AddRelease(ctx, release("b")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1), Rollout: rollout("stable", "a", 1)}))
	if channelOf(t, r).Finished {
		t.Error("a rollout that runs has finished")
	}
	bring(t, r, releases.Done)
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "b", 2), Last: 1, Rollout: rollout("stable", "b", 2)}))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 3), Last: 2, Rollout: rollout("stable", "a", 3)}))
	if c := channelOf(t, r); !c.Finished || c.Previous != "" {
		t.Errorf("after the way back: %+v", c)
	}
	bring(t, r, releases.Done)
	bring(t, r, releases.Halted)
	if !channelOf(t, r).Finished {
		t.Error("what halted after its end has not finished")
	}
	bring(t, r, releases.Done)
	all, err := r.Rollouts(ctx)
	must(t, err)
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "b", 4), Last: 3, Rollout: rollout("stable", "b", 4)}))
	wantError(t, r.ChangeRollout(ctx, all[0], all[0], nil), store.ErrConflict)
}

// TestAbortedAfterItsEnd: what finished and was halted or aborted later is not gone back to, unless there is nothing else.
func TestAbortedAfterItsEnd(t *testing.T) {
	t.Run("halted", func(t *testing.T) {
		r, _ := open(t)
		for i, digest := range []string{"a", "b", "c"} {
			must(t, r.AddRelease(t.Context(), release(digest)))
			must(t, r.Point(t.Context(), releases.Step{Pointer: pointer("stable", digest, int64(i+1)), Last: int64(i),
				Rollout: rollout("stable", digest, int64(i+1))}))
			bring(t, r, releases.Done)
			if digest == "b" {
				bring(t, r, releases.Halted)
			}
		}
		if got := channelOf(t, r); got.Previous != "a" {
			t.Errorf("got %+v", got)
		}
	})
	for name, c := range map[string]struct {
		first, second string // before: that is aborted
		want          string // what c goes back to
	}{"another one before": {"a", "b", "a"}, "nothing before": {"b", "b", "b"}} {
		t.Run(name, func(t *testing.T) {
			r, _ := open(t)
			ctx := t.Context()
			for _, digest := range []string{"a", "b", "c"} {
				must(t, r.AddRelease(ctx, release(digest)))
			}
			step := func(seq int64, digest string) releases.Channel {
				must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", digest, seq), Last: seq - 1, Rollout: rollout("stable", digest, seq)}))
				return channelOf(t, r)
			}
			step(1, c.first)
			bring(t, r, releases.Done)
			step(2, c.second)
			bring(t, r, releases.Done)
			bring(t, r, releases.Halted)
			bring(t, r, releases.Aborted)
			seq := int64(3)
			if c.first != c.second { // the way back, and the same again with a rollout
				must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", c.first, seq), Last: seq - 1}))
				if got := step(seq+1, c.first); got.Previous != "" || !got.Finished {
					t.Errorf("after the way back: %+v", got)
				}
				seq += 2
			}
			if got := step(seq, "c"); got.Previous != c.want {
				t.Errorf("got %+v, want %q before it", got, c.want)
			}
		})
	}
}

// TestBehind: the number stays until the channel points at something, and never falls.
func TestBehind(t *testing.T) {
	r, s := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1)}))
	must(t, r.Behind(ctx, "stable", 9, store.Event{At: start.Add(time.Minute), Kind: "told"}))
	must(t, r.Behind(ctx, "stable", 7))
	must(t, r.Behind(ctx, "none", 7))
	if c := channelOf(t, r); c.Reported != 9 {
		t.Errorf("got %+v", c)
	}
	if events, err := s.Events(ctx, store.EventQuery{Kind: "told"}); err != nil || len(events) != 1 {
		t.Errorf("told: %v, %v", events, err)
	}
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 10), Last: 1}))
	if c := channelOf(t, r); c.Reported != 0 {
		t.Errorf("got %+v", c)
	}
}
