package releases_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"muster/store"
	"muster/store/releases"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) (releases.Records, *store.Store) {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	return releases.New(s.Records()), s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func release(digest string) releases.Release {
	return releases.Release{Digest: digest, Version: "1.0", Size: 5, Reference: "host/x", Credential: "ci", Carried: true, CreatedAt: start,
		CreatedBy: "account:ci", Platforms: []releases.Platform{{OS: "linux", Arch: "amd64", MediaType: "m", Digest: "l", Size: 1,
			Program: "p", ProgramSize: 2}}}
}

func pointer(channel, digest string, seq int64) releases.Pointer {
	return releases.Pointer{Channel: channel, Sequence: seq, Digest: digest, KeyID: "k", Own: true, SignedAt: start,
		ExpiresAt: start.Add(time.Hour), SignedBy: "account:ci", Envelope: "{}"}
}

func rollout(channel, digest string, seq int64) *releases.Rollout {
	return &releases.Rollout{Channel: channel, Sequence: seq, Digest: digest, Plan: "{}", CreatedAt: start, CreatedBy: "account:ci"}
}

func TestReleases(t *testing.T) {
	r, _ := open(t)
	ctx := t.Context()
	want := release("a")
	must(t, r.AddRelease(ctx, want, store.Event{At: start, Kind: "release.added"}))
	wantError(t, r.AddRelease(ctx, want), store.ErrConflict)
	got, err := r.Releases(ctx)
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got %+v, %v", got, err)
	}
	wantError(t, r.DropRelease(ctx, "none"), store.ErrNotFound)
	must(t, r.AddRelease(ctx, release("b")))
	must(t, r.AddRelease(ctx, release("c")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1)}))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "b", 2), Last: 1}))
	p := pointer("stable", "c", 3)
	must(t, r.Pin(ctx, []releases.Pin{{NodeID: "n", Digest: "c", Channel: "stable", Sequence: 3, At: start, By: "me"}}, &p, 2))
	for _, digest := range []string{"a", "b", "c"} {
		wantError(t, r.DropRelease(ctx, digest), store.ErrConflict)
	}
	must(t, r.Unpin(ctx, []string{"n", "m"}))
	must(t, r.DropRelease(ctx, "c"))
}

// TestPoint: a number is taken once, and the change, its pointer and its rollout come together or not at all.
func TestPoint(t *testing.T) {
	r, s := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.AddRelease(ctx, release("b")))
	for name, step := range map[string]releases.Step{
		"no release":            {Pointer: pointer("stable", "none", 1)},
		"a channel that is not": {Pointer: pointer("stable", "a", 6), Last: 5},
		"no higher number":      {Pointer: pointer("stable", "a", 0)},
	} {
		if err := r.Point(ctx, step, store.Event{At: start, Kind: "told"}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1), Rollout: rollout("stable", "a", 1)}))
	wantError(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "b", 1)}), store.ErrConflict)
	wantError(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "b", 1), Last: 1}), store.ErrConflict)
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "b", 9), Last: 1, Rollout: rollout("stable", "b", 9)}))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "b", 10), Last: 9})) // again: the one before stays
	channels, err := r.Channels(ctx)
	want := releases.Channel{Channel: "stable", Digest: "b", Previous: "a", Sequence: 10, Last: 10, UpdatedAt: start,
		UpdatedBy: "account:ci"}
	if err != nil || len(channels) != 1 || channels[0] != want {
		t.Errorf("got %+v, %v", channels, err)
	}
	live, err := r.Pointers(ctx)
	if err != nil || len(live) != 1 || live[0] != pointer("stable", "b", 10) {
		t.Errorf("got %+v, %v", live, err)
	}
	all, err := r.Rollouts(ctx)
	if err != nil || len(all) != 1 || all[0].Sequence != 9 || all[0].State != releases.Running || all[0].EndedAt != nil {
		t.Errorf("got %+v, %v", all, err)
	}
	if events, err := s.Events(ctx, store.EventQuery{Kind: "told"}); err != nil || len(events) != 0 {
		t.Errorf("a refused change is told: %v, %v", events, err)
	}
	fresh := pointer("stable", "b", 10)
	fresh.Envelope = "[]"
	must(t, r.Refresh(ctx, fresh))
	fresh.Digest = "a"
	wantError(t, r.Refresh(ctx, fresh), store.ErrConflict)
	theirs := pointer("stable", "a", 11)
	theirs.Own = false
	must(t, r.Point(ctx, releases.Step{Pointer: theirs, Last: 10}))
	wantError(t, r.Refresh(ctx, theirs), store.ErrConflict)
}

func TestPin(t *testing.T) {
	r, _ := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	p := pointer("stable", "a", 1)
	pin := releases.Pin{NodeID: "n", Digest: "a", Channel: "stable", Sequence: 1, At: start, By: "me"}
	wantError(t, r.Pin(ctx, []releases.Pin{pin}, &p, 0), store.ErrConflict) // there is no such channel
	must(t, r.Point(ctx, releases.Step{Pointer: p}))
	wantError(t, r.Pin(ctx, []releases.Pin{pin}, &p, 0), store.ErrConflict)
	p.Sequence = 2
	pin.Sequence = 2
	must(t, r.Pin(ctx, []releases.Pin{pin}, &p, 1))
	wantError(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 2), Last: 1}), store.ErrConflict)
	pins, err := r.Pins(ctx)
	if err != nil || len(pins) != 1 || pins[0] != pin {
		t.Errorf("got %+v, %v", pins, err)
	}
	live, err := r.Pointers(ctx)
	if err != nil || len(live) != 2 {
		t.Errorf("got %+v, %v", live, err)
	}
	held := releases.Pin{NodeID: "n", At: start, By: "me"}
	must(t, r.Pin(ctx, []releases.Pin{held}, nil, 0))
	if pins, err = r.Pins(ctx); err != nil || len(pins) != 1 || pins[0] != held {
		t.Errorf("got %+v, %v", pins, err)
	}
}

func TestChangeRollout(t *testing.T) {
	r, _ := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1), Rollout: rollout("stable", "a", 1)}))
	all, err := r.Rollouts(ctx)
	must(t, err)
	o := all[0]
	was := o
	o.State = releases.Halted
	o.Why = "too many"
	o.Wave = 1
	o.Forgiven = 2
	at := start.Add(time.Minute)
	o.WaveAt = at
	o.StillAt = &at
	node := releases.Node{Rollout: o.Number, NodeID: "n", Wave: 1, State: "begun", AdmittedAt: start, ChangedAt: at}
	for _, stale := range []releases.Rollout{{State: releases.Paused}, {State: releases.Running, Wave: 1}} {
		wantError(t, r.ChangeRollout(ctx, o, stale, []releases.Node{node}), store.ErrConflict)
	}
	must(t, r.ChangeRollout(ctx, o, was, []releases.Node{node}))
	all, err = r.Rollouts(ctx)
	if err != nil || !reflect.DeepEqual(all[0], o) {
		t.Errorf("got %+v, %v", all, err)
	}
	nodes, err := r.RolloutNodes(ctx, o.Number)
	if err != nil || len(nodes) != 1 || nodes[0] != node {
		t.Errorf("got %+v, %v", nodes, err)
	}
	o.EndedAt = &at
	wantError(t, r.ChangeRollout(ctx, o, was, nil), store.ErrConflict)
	must(t, r.ChangeRollout(ctx, o, o, nil))
	wantError(t, r.ChangeRollout(ctx, o, o, nil), store.ErrConflict) // it has ended
}

func TestNote(t *testing.T) {
	r, _ := open(t)
	ctx := t.Context()
	_, err := r.Update(ctx, "n")
	wantError(t, err, store.ErrNotFound)
	u := releases.Update{NodeID: "n", Channel: "stable", Digest: "a", About: 1, Phase: "failed", Code: "no_room", At: start,
		Detail: "d", Log: "l"}
	node := releases.Node{Rollout: 4, NodeID: "n", State: "failed", AdmittedAt: start, ChangedAt: start}
	must(t, r.Note(ctx, u, &node))
	if got, err := r.Update(ctx, "n"); err != nil || got != u {
		t.Errorf("got %+v, %v", got, err)
	}
	u.Phase = "committed"
	must(t, r.Note(ctx, u, nil))
	u.Log = ""
	if all, err := r.Updates(ctx); err != nil || len(all) != 1 || all[0] != u {
		t.Errorf("got %+v, %v", all, err)
	}
	if nodes, err := r.RolloutNodes(ctx, 4); err != nil || len(nodes) != 1 || nodes[0] != node {
		t.Errorf("got %+v, %v", nodes, err)
	}
}

// TestLabels: what operators and credentials say counts, and what the node says of itself does not.
func TestLabels(t *testing.T) {
	r, s := open(t)
	ctx := t.Context()
	must(t, s.CreateToken(ctx, store.Token{ID: "mse_a", Tenant: "default", Uses: 9, Key: []byte("k"), CreatedAt: start,
		ExpiresAt: start.Add(time.Hour)}))
	enrol := func(name string, credential, agent map[string]string) {
		must(t, s.Enrol(ctx, store.Enrolment{ID: "e-" + name, Credential: "mse_a", ConsumeToken: true, KeyHash: "k-" + name, At: start,
			NewNode:          true,
			Node:             store.Node{ID: name, Name: name, Tenant: "default", State: "enrolled"},
			CredentialLabels: credential, AgentLabels: agent, Agent: `{"os":"linux"}`,
			Certificate: store.Certificate{Fingerprint: "f-" + name, KeyHash: "key of " + name, PublicKey: []byte("p"), Chain: "c",
				NotBefore: start, NotAfter: start.Add(time.Hour), IssuedAt: start}}))
	}
	enrol("own", nil, map[string]string{"channel": "beta"})
	enrol("token", map[string]string{"channel": "beta", "window": "02:00-03:00", "other": "x"}, map[string]string{"channel": "own"})
	enrol("operator", map[string]string{"channel": "beta"}, nil)
	must(t, s.SetLabels(ctx, "operator", map[string]string{"channel": "lab"}, nil))
	enrol("removed", map[string]string{"channel": "beta"}, nil)
	must(t, s.SetLabels(ctx, "removed", nil, []string{"channel"}))
	got, err := r.Labels(ctx, "channel", "window", "")
	want := map[string][2]string{"token": {"beta", "02:00-03:00"}, "operator": {"lab"}, "removed": {}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err = r.Labels(ctx, "channel", "window", "token"); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	known, err := r.Known(ctx)
	if err != nil || len(known) != 4 || known[0].Agent != `{"os":"linux"}` || known[0].LastSeen != nil {
		t.Errorf("got %+v, %v", known, err)
	}
	must(t, s.MoveNode(ctx, store.Move{NodeID: "own", From: "enrolled", To: "retired", At: start}))
	gone, err := r.Retired(ctx, []string{"own", "token", "none"})
	if err != nil || !reflect.DeepEqual(gone, []string{"own"}) {
		t.Errorf("got %v, %v", gone, err)
	}
}
