package release_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release"
	"muster/store"
	"muster/store/releases"
)

// restored is a desk whose database was restored, with nodes that follow its channel. The channel has the number 1.
func restored(t *testing.T, nodes ...string) *hall {
	t.Helper()
	h := newHall(t, nodes...)
	h.point(h.release("v1"), nil)
	must(t, h.store.NoteRestore(t.Context(), store.Restoration{At: start, BackupAt: start, AdoptUntil: start.Add(48 * time.Hour)}))
	h.open()
	return h
}

// TestBehind: where nodes have obeyed higher numbers than a restored channel has, nobody is sent anywhere, also not after a restart and
// when the restore is long ago, until a person resumes or promotes. Then the number is above theirs.
func TestBehind(t *testing.T) {
	decisions := map[string]func(h *hall) (api.Channel, error){
		"resume": func(h *hall) (api.Channel, error) { return h.Resume(t.Context(), wire.DefaultChannel, operator) },
		"promote": func(h *hall) (api.Channel, error) {
			return h.Point(t.Context(), wire.DefaultChannel, release.Promotion{Digest: sum("v1")}, operator)
		},
	}
	for name, decide := range decisions {
		t.Run(name, func(t *testing.T) {
			h := restored(t, "ahead", "low", "pinned")
			v2 := h.release("v2")
			h.nodes["ahead"].obeyed = 7
			h.beat("ahead")
			must(t, h.Pin(t.Context(), []release.Ref{{ID: "id-pinned", Name: "pinned"}}, v2, nil, operator))
			for range 2 {
				h.clock.Forward(49 * time.Hour / 2)
				h.pass(10 * time.Minute)
				if offered := h.look(); len(offered) != 0 {
					t.Errorf("offered %v", offered)
				}
				h.open()
			}
			c := h.state(release.StateBehind)
			if c.Sequence != 1 || !strings.Contains(c.Why, "7") {
				t.Errorf("got %+v", c)
			}
			if _, ok, err := h.Newcomer(t.Context(), "id-new"); err != nil || ok {
				t.Errorf("a newcomer gets the channel's release: %v", err)
			}
			if e := h.events("channel.behind"); len(e) != 1 || !e[0].Security || e[0].Detail["seq"] != "7" {
				t.Errorf("the log has %+v", e)
			}
			c, err := decide(h)
			if err != nil || c.Sequence != 9 || c.State != releases.Running {
				t.Errorf("got %+v, %v", c, err)
			}
			h.look()
			if offered := h.look(); offered["ahead"] != sum("v1") || offered["low"] != sum("v1") || offered["pinned"] != v2 {
				t.Errorf("offered %v", offered)
			}
			h.open()
			h.state(releases.Running)
		})
	}
}

// TestBehindBounds: what no restore explains holds nothing up.
func TestBehindBounds(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration
		obeyed int64
		behind bool
	}{
		"the farthest": {0, 1_000_001, true}, "too far": {0, 1_000_002, false}, "too late": {49 * time.Hour, 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := restored(t, "n")
			h.clock.Forward(c.after)
			h.look()
			h.nodes["n"].obeyed = c.obeyed
			h.look()
			if got := h.shown().State == release.StateBehind; got != c.behind {
				t.Errorf("behind: %v, want %v", got, c.behind)
			}
		})
	}
}

// TestRestoredSettles: right after a restore nodes first have the time to say what they have obeyed. Who is heard first might be one that
// slept through the rollback.
func TestRestoredSettles(t *testing.T) {
	h := restored(t, "n")
	h.pass(5 * time.Minute)
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
	h.pass(time.Minute)
	if offered := h.look(); one(t, offered) != "n" {
		t.Errorf("offered %v", offered)
	}
	h = restored(t, "n")
	h.clock.Forward(time.Second)
	h.point(sum("v1"), nil) // a person has decided already
	if offered := h.look(); one(t, offered) != "n" {
		t.Errorf("offered %v", offered)
	}
}

// TestBehindOffline: where the operator keeps the key, a resume says that a signature is wanted, and a signed promotion ends it.
func TestBehindOffline(t *testing.T) {
	h := restored(t, "n")
	h.key = nil
	h.open()
	h.nodes["n"].obeyed = 7
	h.look()
	h.state(release.StateBehind)
	_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	wantCode(t, err, wire.CodeSignatureWanted)
	h.state(release.StateBehind)
	payload, err := h.Unsigned(t.Context(), wire.DefaultChannel, sum("v1"))
	must(t, err)
	pointer := h.seal(h.operator, payload, nil)
	c, err := h.Point(t.Context(), wire.DefaultChannel, release.Promotion{Digest: sum("v1"), Pointer: pointer}, operator)
	if err != nil || c.Sequence != 8 || c.State != releases.Running {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestBehindPaused: one resume is enough where the rollout was held besides.
func TestBehindPaused(t *testing.T) {
	h := restored(t, "n")
	_, err := h.Pause(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	h.nodes["n"].obeyed = 7
	h.look()
	h.state(release.StateBehind)
	c, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	if err != nil || c.Sequence != 8 || c.State != releases.Running {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestBehindHalted: the resume after a restore accepts no failure that the channel did not show meanwhile. It says that the rollout is
// halted.
func TestBehindHalted(t *testing.T) {
	h := newHall(t, "n000", "n001")
	h.point(h.release("v1"), waves())
	canary := one(t, h.look())
	h.say(canary, wire.UpdateRolledBack, wire.UpdateNoStart)
	h.look()
	h.state(releases.Halted)
	must(t, h.store.NoteRestore(t.Context(), store.Restoration{At: h.clock.Now(), BackupAt: start, AdoptUntil: start.Add(48 * time.Hour)}))
	h.open()
	h.nodes[canary].obeyed = 7
	h.look()
	h.state(release.StateBehind)
	c, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	if err != nil || c.Sequence != 8 || c.State != releases.Halted || !strings.Contains(c.Note, "halted") {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err = h.Resume(t.Context(), wire.DefaultChannel, operator); err != nil || c.State != releases.Running {
		t.Errorf("the second resume: %+v, %v", c, err)
	}
}

// TestBehindUnpin: an unpin is no decision about a channel that is behind, though the pin's number is above the channel's.
func TestBehindUnpin(t *testing.T) {
	h := restored(t, "ahead", "pinned")
	v2 := h.release("v2")
	h.nodes["ahead"].obeyed = 7
	h.look()
	pinned := []release.Ref{{ID: "id-pinned", Name: "pinned"}}
	must(t, h.Pin(t.Context(), pinned, v2, nil, operator))
	must(t, h.Unpin(t.Context(), pinned, nil, operator))
	if c := h.state(release.StateBehind); c.Sequence != 1 {
		t.Errorf("got %+v", c)
	}
	h.nodes["pinned"].obeyed = 8
	h.pass(10 * time.Minute)
	h.state(release.StateBehind)
	h.point(v2, nil)
	h.look()
	if offered := h.look(); offered["pinned"] != v2 || offered["ahead"] != v2 {
		t.Errorf("offered %v", offered)
	}
	if r, err := h.Wanted(t.Context(), "id-pinned"); err != nil || r.Sequence != 9 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestBehindIsNotLate: a node that was let in before the restore is not late, however long a person takes to decide.
func TestBehindIsNotLate(t *testing.T) {
	h := newHall(t, names(12)...)
	h.point(h.release("v1"), waves())
	canary := one(t, h.look())
	now := h.clock.Now()
	must(t, h.store.NoteRestore(t.Context(), store.Restoration{At: now, BackupAt: now, AdoptUntil: now.Add(48 * time.Hour)}))
	h.open()
	other := "n000"
	if canary == other {
		other = "n001"
	}
	h.nodes[other].obeyed = 7
	h.pass(time.Hour)
	h.state(release.StateBehind)
	_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	h.pass(7 * time.Minute)
	h.state(releases.Running)
	if offered := h.look(); one(t, offered) != canary {
		t.Errorf("offered %v", offered)
	}
	h.pass(2 * time.Minute)
	h.state(releases.Halted)
}

// TestRestoredWithRareReports: where nodes report every ten minutes, they have longer to say what they have obeyed, and no less to begin.
func TestRestoredWithRareReports(t *testing.T) {
	h := newHall(t, "rare", "n")
	h.point(h.release("v1"), nil)
	now := h.clock.Now()
	must(t, h.store.NoteRestore(t.Context(), store.Restoration{At: now, BackupAt: now, AdoptUntil: now.Add(48 * time.Hour)}))
	h.nodes["rare"].every = 10 * time.Minute
	h.seen()
	h.open()
	h.pass(29 * time.Minute)
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
	h.pass(time.Minute)
	if offered := h.look(); len(offered) != 2 {
		t.Errorf("offered %v", offered)
	}
	h.pass(6 * time.Minute)
	h.state(releases.Running)
}

// TestAheadLongAfterRestore: long after a restore, one promotion is enough for a node that has obeyed a higher number. A node cannot take
// the numbers away: it moves them by so many at most, and who signs offline is not disturbed by what it says meanwhile.
func TestAheadLongAfterRestore(t *testing.T) {
	h := restored(t, "ahead", "liar")
	h.clock.Forward(49 * time.Hour)
	h.look()
	h.nodes["ahead"].obeyed = 7
	h.look()
	h.nodes["ahead"].obeyed = 6 // a lower word changes nothing
	h.look()
	if c := h.shown(); c.State == release.StateBehind {
		t.Fatalf("it is held: %+v", c)
	}
	if c := h.point(sum("v1"), nil); c.Sequence != 8 {
		t.Errorf("promoted under %d", c.Sequence)
	}
	h.nodes["liar"].obeyed = 1 << 62
	h.look()
	if c := h.point(sum("v1"), waves()); c.Sequence != 9 {
		t.Errorf("promoted under %d: what is too far counts", c.Sequence)
	}
	payload, err := h.Unsigned(t.Context(), wire.DefaultChannel, sum("v1"))
	must(t, err)
	h.nodes["liar"].obeyed = 500_000
	h.look()
	h.nodes["liar"].obeyed = 10
	h.look()
	p := release.Promotion{Digest: sum("v1"), Pointer: h.seal(h.operator, payload, nil)}
	if c, err := h.Point(t.Context(), wire.DefaultChannel, p, operator); err != nil || c.Sequence != 10 {
		t.Errorf("signed offline: %+v, %v", c, err)
	}
	h.look()
	if p := h.opened("ahead"); p.Sequence != 10 {
		t.Errorf("the node gets %+v", p)
	}
	if c := h.point(sum("v1"), nil); c.Sequence != 500_001 {
		t.Errorf("promoted under %d", c.Sequence)
	}
	if _, err := h.Point(t.Context(), wire.DefaultChannel, p, operator); err == nil {
		t.Error("the same signature counts twice")
	}
}
