package release_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/release"
	"muster/store/releases"
)

func ref(name string) []release.Ref {
	return []release.Ref{{ID: "id-" + name, Name: name, Tenant: "default"}}
}

// TestCredentialNames: no name of a credential reaches another secret of the gateway, such as the key of the registry's passes.
func TestCredentialNames(t *testing.T) {
	h := newHall(t)
	passes, err := account.OpenPasses(t.Context(), h.store, h.clock.Now)
	must(t, err)
	pass := passes.PullToken("team/app", time.Minute)
	if all, err := h.Credentials(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
	wantCode(t, h.DropCredential(t.Context(), "pass", operator), wire.CodeNotFound)
	must(t, h.SetCredential(t.Context(), release.Credential{Name: "pass", Host: there, Password: password}, operator))
	passes, err = account.OpenPasses(t.Context(), h.store, h.clock.Now)
	must(t, err)
	if again := passes.PullToken("team/app", time.Minute); len(again) != len(pass) {
		t.Error("passes have changed")
	}
	names, err := h.store.Secrets(t.Context(), "")
	if err != nil || len(names) < 3 {
		t.Errorf("a credential took the place of another secret: %v, %v", names, err)
	}
}

// TestHeldAfterItsOwn: a node that had its own release, was then held, and is pinned no longer, can obey its channel.
func TestHeldAfterItsOwn(t *testing.T) {
	h := newHall(t, "a")
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.point(v1, nil)
	must(t, h.Pin(t.Context(), ref("a"), v2, nil, operator))
	h.look()
	h.install("a", "v2")
	must(t, h.Pin(t.Context(), ref("a"), "", nil, operator))
	must(t, h.Unpin(t.Context(), ref("a"), nil, operator))
	h.look()
	if offered := h.look(); offered["a"] != v1 {
		t.Fatalf("offered %v", offered)
	}
	if p := h.opened("a"); p.Sequence < h.nodes["a"].obeyed {
		t.Errorf("it is offered the number %d, and has obeyed %d", p.Sequence, h.nodes["a"].obeyed)
	}
}

// TestBackOnItsChannel: a node that had its own release on one channel, left it, was pinned no longer, and comes back, can obey it.
func TestBackOnItsChannel(t *testing.T) {
	h := newHall(t, "a")
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.point(v1, nil)
	_, err := h.Point(t.Context(), "beta", release.Promotion{Digest: v1}, operator)
	must(t, err)
	must(t, h.Pin(t.Context(), ref("a"), v2, nil, operator))
	h.look()
	h.install("a", "v2")
	must(t, h.Pin(t.Context(), ref("a"), "", nil, operator))
	must(t, h.store.SetLabels(t.Context(), "id-a", map[string]string{wire.LabelChannel: "beta"}, nil))
	h.nodes["a"].obeyed = 0 // on that channel
	h.look()
	must(t, h.Unpin(t.Context(), ref("a"), nil, operator))
	must(t, h.store.SetLabels(t.Context(), "id-a", nil, []string{wire.LabelChannel}))
	h.look()
	h.nodes["a"].obeyed = 2
	h.pass(2 * time.Minute)
	if p := h.opened("a"); p.Channel != "stable" || p.Sequence != 3 {
		t.Errorf("it is offered %d, and has obeyed 2", p.Sequence)
	}
	h.nodes["a"].obeyed = 1 << 40 // nobody gave that out, and no restore explains it
	h.pass(3 * time.Minute)
	if c := h.row(); c.Last != 3 {
		t.Errorf("got %+v", c)
	}
}

// TestPinBelowFloor: a pinned machine that enrols anew has its channel's number as its floor, and can obey its pin all the same.
func TestPinBelowFloor(t *testing.T) {
	h := newHall(t, "a")
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.point(v1, nil)
	must(t, h.Pin(t.Context(), ref("a"), v1, nil, operator))
	h.look()
	h.point(v2, nil)
	_, h.nodes["a"].obeyed = h.Floor(t.Context(), "id-a")
	h.pass(2 * time.Minute)
	if p := h.opened("a"); p.Digest != v1 || p.Sequence < h.nodes["a"].obeyed {
		t.Errorf("it is offered %s under %d, and obeys from %d", p.Digest, p.Sequence, h.nodes["a"].obeyed)
	}
	last := h.row().Last
	h.nodes["a"].obeyed = last
	h.pass(5 * time.Minute)
	if again := h.row().Last; again != last {
		t.Errorf("its number rises for ever: %d, %d", last, again)
	}
}

// TestStruckKey: a pointer whose key was struck is offered to nobody: each node would fail at it, and the rollout halt.
func TestStruckKey(t *testing.T) {
	h := newHall(t, "n")
	v1 := h.release("v1")
	payload, err := h.Unsigned(t.Context(), "stable", v1)
	must(t, err)
	_, err = h.Point(t.Context(), "stable", release.Promotion{Digest: v1, Pointer: h.seal(h.operator, payload, nil)}, operator)
	must(t, err)
	if offered := h.look(); len(offered) != 1 {
		t.Fatalf("offered %v", offered)
	}
	if n, ok, err := h.Newcomer(t.Context(), "id-new"); err != nil || !ok || n.Pointer == "" {
		t.Errorf("a newcomer gets %+v", n)
	}
	_, h.operator, _ = ed25519.GenerateKey(rand.Reader)
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
	if r, err := h.Wanted(t.Context(), "id-n"); r != nil || err != nil {
		t.Errorf("got %+v, %v", r, err)
	}
	if n, ok, err := h.Newcomer(t.Context(), "id-new"); err != nil || !ok || n.Pointer != "" {
		t.Errorf("a newcomer gets %+v", n)
	}
}

// TestNewcomerOfAnExpiredPointer: a newcomer begins with the release, and is not given a pointer that it would refuse.
func TestNewcomerOfAnExpiredPointer(t *testing.T) {
	h := newHall(t)
	h.point(h.release("v1"), nil)
	for _, c := range []struct {
		passed time.Duration
		obeys  bool
	}{{90*24*time.Hour - time.Second, true}, {time.Second, false}} {
		h.clock.Forward(c.passed)
		if n, ok, err := h.Newcomer(t.Context(), "id-new"); err != nil || !ok || n.Digest == "" || (n.Pointer != "") != c.obeys {
			t.Errorf("%s later: a newcomer gets %+v, %v", c.passed, n, err)
		}
	}
}

// TestWindowsOfAll: where every node waits for its window, the canary waits with them. Nobody else is let in without it.
func TestWindowsOfAll(t *testing.T) {
	h := newHall(t)
	for _, name := range names(10) {
		h.enrol(name, map[string]string{wire.LabelWindow: "14:00-16:00"})
	}
	v1 := h.release("v1")
	h.point(v1, waves())
	h.look()
	h.state(releases.Running)
	h.pass(2*time.Hour + time.Minute)
	if c := h.state(releases.Running); c.Wave != 1 || c.Counts.Admitted != 1 {
		t.Errorf("got %+v", c)
	}
	one(t, h.look())
}

// TestSilentWereAccepted: nodes that an operator accepted as silent, and that come back and then go back, stop the rollout again.
func TestSilentWereAccepted(t *testing.T) {
	h := newHall(t, names(10)...)
	v1 := h.release("v1")
	h.point(v1, &release.Plan{Canary: "3", Steps: []string{"100%"}, MaxFailed: "0", SoakSeconds: 600})
	offered := h.look()
	if len(offered) != 3 {
		t.Fatalf("offered %v", offered)
	}
	for name := range offered {
		h.nodes[name].silent = true
	}
	h.pass(7 * time.Minute)
	h.state(releases.Halted)
	_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	for name := range offered {
		h.nodes[name].silent = false
	}
	h.look()
	h.look()
	h.state(releases.Running)
	for name := range offered {
		h.say(name, wire.UpdateRolledBack, wire.UpdateCrashed)
		h.state(releases.Halted)
		return
	}
}

// TestNewCredential: a credential that was replaced opens nothing any more, at once.
func TestNewCredential(t *testing.T) {
	h := newHall(t, "n")
	f := newForeign()
	h.config.Transport = f
	h.open()
	digest := f.release()
	ci := release.Credential{Name: "ci", Host: there, Username: "puller", Password: password}
	must(t, h.SetCredential(t.Context(), ci, operator))
	_, err := h.Add(t.Context(), api.NewRelease{Digest: digest, Version: "1", Reference: there + "/team/agent", Credential: "ci"}, operator)
	must(t, err)
	h.point(digest, nil)
	h.look()
	ci.Password = "struck"
	must(t, h.SetCredential(t.Context(), ci, operator))
	if got, err := h.Wanted(t.Context(), "id-n"); err == nil {
		t.Errorf("a node gets the token of the credential before: %+v", got)
	}
}

// TestHeldByOther: a call that fails ends nothing that another call for the same digest needs.
func TestHeldByOther(t *testing.T) {
	h := withRegistry(t)
	digest := h.push(wire.AgentRepository, good())
	now := h.config.Now
	failed := false
	h.config.Now = func() time.Time { // Add asks for the time after it has read all, and before it records
		if !failed {
			failed = true
			_, err := h.Add(t.Context(), api.NewRelease{Digest: digest, Version: "no version"}, operator)
			wantCode(t, err, wire.CodeBadRequest)
		}
		return now()
	}
	failed = true
	h.open()
	failed = false
	_, err := h.Add(t.Context(), api.NewRelease{Digest: digest, Version: "1"}, operator)
	must(t, err)
	if err := h.config.Artifacts.DeleteManifest(t.Context(), wire.AgentRepository, digest, operator); !artifact.Is(err, artifact.CodeDenied) {
		t.Errorf("the content of a release can be deleted: %v", err)
	}
}

// TestRollbackAfterAbort: an aborted release does not come to all nodes because somebody asks for the one before twice.
func TestRollbackAfterAbort(t *testing.T) {
	h := inState(t, releases.Aborted)
	_, err := h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	wantCode(t, err, wire.CodeIllegalMove)
	if c := h.shown(); c.Digest != sum("v1") {
		t.Errorf("got %+v", c)
	}
	h.point(sum("v2"), waves())
}

// TestTwoBadOnes: where two releases in a row were stopped, an abort goes back to the last good one, and newcomers get that meanwhile.
func TestTwoBadOnes(t *testing.T) {
	h := inState(t, releases.Halted) // v2, after v1
	must(t, h.Look(t.Context()))
	v3 := h.release("v3")
	h.point(v3, waves())
	if n, ok, err := h.Newcomer(t.Context(), "id-new"); err != nil || !ok || n.Digest != sum("v1") {
		t.Errorf("a newcomer gets %s, %v", n.Version, err)
	}
	h.say(one(t, h.look()), wire.UpdateRolledBack, wire.UpdateCrashed)
	h.state(releases.Halted)
	c, err := h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	must(t, err)
	if c.Digest != sum("v1") {
		t.Errorf("all nodes get %s", c.Version)
	}
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
}

// TestFloorRises: a node that runs the release already learns its number. Else it would obey an older pointer that lies between the
// number that it has obeyed and that one.
func TestFloorRises(t *testing.T) {
	h := newHall(t, "a")
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.nodes["a"].program = program("v1")
	h.point(v1, nil)
	h.pass(10 * time.Minute)
	h.point(v2, nil)
	h.point(v1, nil)
	h.pass(10 * time.Minute)
	if got, want := h.nodes["a"].obeyed, h.shown().Sequence; got != want {
		t.Errorf("it obeys from %d on, and the channel is at %d", got, want)
	}
	if offered := h.beats(10 * time.Second); len(offered) > 0 {
		t.Errorf("it is offered %v for ever", offered)
	}
}

// TestChannelOfAgent: what an agent says in its labels does not choose its channel.
func TestChannelOfAgent(t *testing.T) {
	h := newHall(t)
	h.release("v1")
	h.enrolSaying("a", map[string]string{wire.LabelChannel: "beta"}, nil)
	h.enrolSaying("b", map[string]string{wire.LabelChannel: "beta"}, map[string]string{wire.LabelChannel: "gold"})
	for name, want := range map[string]string{"a": wire.DefaultChannel, "b": "gold"} {
		if got, _ := h.Floor(t.Context(), "id-"+name); got != want {
			t.Errorf("%s is told the channel %s, want %s", name, got, want)
		}
	}
}

// TestEndNeedsNoAllowance: a node that has said much lately has its release's end recorded at once, for the rollout waits for it.
func TestEndNeedsNoAllowance(t *testing.T) {
	h := newHall(t, names(2)...)
	h.point(h.release("v1"), nil)
	h.look()
	wanted, err := h.Wanted(t.Context(), "id-n000")
	must(t, err)
	for i := range 10 {
		h.sayOf(h.nodes["n000"], wanted, []string{wire.UpdateFetching, wire.UpdateHeld}[i%2], "")
	}
	h.sayOf(h.nodes["n000"], wanted, wire.UpdateRolledBack, wire.UpdateCrashed)
	if len(h.events("release.rolled_back")) != 1 {
		t.Error("the way back is not recorded")
	}
}

// TestManyPhases: a node that says another phase with every heartbeat has few of them recorded. The last one is, when its allowance has
// room again, also if the node says nothing of it any more; and nothing is lost where the database fails meanwhile.
func TestManyPhases(t *testing.T) {
	h := newHall(t, names(2)...)
	h.point(h.release("v1"), nil)
	h.look()
	wanted, err := h.Wanted(t.Context(), "id-n000")
	must(t, err)
	for i := range 40 {
		h.clock.Forward(time.Second)
		h.sayOf(h.nodes["n000"], wanted, []string{wire.UpdateFetching, wire.UpdateRolledBack}[i%2], wire.UpdateCrashed)
	}
	if n := len(h.events("release.rolled_back")); n > 3 {
		t.Errorf("%d of 20 are recorded", n)
	}
	h.sayOf(h.nodes["n000"], wanted, wire.UpdateFailed, wire.UpdateNoRoom)
	if len(h.events("release.failed")) != 0 {
		t.Error("the allowance has room for more")
	}
	h.clock.Forward(2 * time.Minute)
	h.beat("n000")
	if len(h.events("release.failed")) != 1 {
		t.Error("what it said last is lost")
	}
	for i := range 10 {
		h.sayOf(h.nodes["n000"], wanted, []string{wire.UpdateFetching, wire.UpdateTrial}[i%2], "")
	}
	h.clock.Forward(2 * time.Minute)
	must(t, h.store.Close())
	n := release.Node{ID: "id-n000", Name: "n000", OS: "linux", Arch: "amd64", Digest: "sha256:old", Interval: 30 * time.Second}
	for range 2 {
		if _, _, _, err := h.Heard(t.Context(), n, &wire.Update{Channel: wire.DefaultChannel}); err == nil {
			t.Error("what was not recorded is forgotten")
		}
	}
}
