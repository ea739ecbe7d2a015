package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

const (
	noCost  = `{"rss_kib":null,"cpu_ms":null,"probe_ms":null,"starts":null}`
	oneGPU  = `{"gpus":[{"index":0,"uuid":"GPU-1","name":"NVIDIA H100","bus_id":"00000000:01:00.0"}]}`
	twoGPUs = `{"gpus":[{"index":0,"uuid":"GPU-1","name":"NVIDIA H100"},{"index":1,"uuid":"GPU-2","name":"NVIDIA H100"}]}`
)

func TestBeat(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.clock.Forward(time.Second)
	state := f.beat(ad, 7, func(b *wire.HeartbeatRequest) {
		b.Hardware = []byte(oneGPU)
		b.SkewMillis = -250
		b.Notices = []string{"no init system"}
	})
	if state != fleet.Active {
		t.Errorf("got state %s, want active with the first heartbeat", state)
	}
	check := func(when string) {
		n := f.seen("box")
		if n.LastSeen == nil || !n.LastSeen.Equal(start.Add(time.Second)) || n.Status != "online" || n.Interval != pace || n.Counter != 7 ||
			n.RunID != "run00001" || *n.SkewMillis != -250 || n.Address != address ||
			n.Agent != `{"version":"1","os":"","arch":"","release_ends":null}` || n.Cost != noCost || n.Hardware != written(oneGPU) || !slices.Equal(n.Notices, []string{"no init system"}) {
			t.Errorf("%s: got %+v", when, n)
		}
	}
	check("before the flush")
	if n := f.stored("box"); n.LastSeen != nil {
		t.Errorf("the database has %v before the flush, want nothing", n.LastSeen)
	}
	f.flush()
	check("after the flush")
	f.restart()
	check("after a restart")
	if events := f.events("node.active"); len(events) != 1 || events[0].Detail["from"] != "enrolled" {
		t.Errorf("got events %+v, want one", events)
	}
}

// TestReadingsStay: a heartbeat without a reading leaves the last reading in place.
func TestReadingsStay(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		f := newFleet(t)
		ad := f.enrolled("box")
		f.beat(ad, 1, hardware(oneGPU))
		if flushed {
			f.flush()
		}
		f.beat(ad, 2, hardware(""))
		if got := f.seen("box"); got.Hardware != written(oneGPU) || got.Counter != 2 {
			t.Errorf("flushed %v: got %s", flushed, got.Hardware)
		}
		f.flush()
		if got := f.stored("box"); got.Hardware != written(oneGPU) || got.Counter != 2 {
			t.Errorf("flushed %v, in the database: got %s", flushed, got.Hardware)
		}
		f.beat(ad, 3, hardware(twoGPUs))
		if got := f.seen("box"); got.Hardware != written(twoGPUs) {
			t.Errorf("a newer reading: got %s", got.Hardware)
		}
	}
}

// TestFailedFlush: heartbeats that could not be written are written by the next flush, and are shown meanwhile.
func TestFailedFlush(t *testing.T) {
	f := newFleet(t)
	var ads []fleet.Admission
	for i := range 3 {
		ads = append(ads, f.enrolled(fmt.Sprintf("box%d", i)))
		f.beat(ads[i], 1, hardware(oneGPU))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := f.Flush(gone); err == nil {
			t.Fatal("a flush that could not write: got no error")
		}
	}
	f.beat(ads[0], 2, nil) // a later one, without a reading
	for i, counter := range []uint64{2, 1, 1} {
		if n := f.seen(ads[i].Node.Name); n.Status != "online" || n.Hardware != written(oneGPU) || n.Counter != counter {
			t.Errorf("%s: got %+v", n.Name, n)
		}
	}
	f.flush()
	for i, counter := range []uint64{2, 1, 1} {
		if n := f.stored(ads[i].Node.Name); n.LastSeen == nil || n.Hardware != written(oneGPU) || n.Counter != counter {
			t.Errorf("%s in the database: got %+v", n.Name, n)
		}
	}
}

func TestFlushWithoutADatabase(t *testing.T) {
	f := newFleet(t)
	f.beat(f.enrolled("box"), 1, nil)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Flush(t.Context()); err == nil {
		t.Error("got no error from a closed store")
	}
	if _, err := f.Nodes(t.Context(), store.NodeQuery{}); err == nil {
		t.Error("a list by status that could not flush: got no error")
	}
	if len(f.handed) > 0 {
		t.Errorf("%+v was handed on, which is not in the database", f.handed)
	}
}

// TestWritten: each heartbeat is handed on once, after it was written.
func TestWritten(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, hardware(oneGPU))
	if len(f.handed) > 0 {
		t.Errorf("%+v was handed on before it was written", f.handed)
	}
	f.flush()
	f.flush()
	if len(f.handed) != 1 || f.handed[0].NodeID != ad.Node.ID || f.handed[0].Hardware.GPUs[0].UUID != "GPU-1" {
		t.Errorf("got %+v, want the one heartbeat once", f.handed)
	}
}

// TestOrder: a heartbeat that arrives after a later one proves only that the node is alive. Another run begins with its own counter.
func TestOrder(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		f := newFleet(t)
		ad := f.enrolled("box")
		f.beat(ad, 5, hardware(twoGPUs))
		if flushed {
			f.flush()
		}
		f.clock.Forward(time.Second)
		late := func(b *wire.HeartbeatRequest) {
			b.Hardware = []byte(oneGPU)
			b.Health = []string{wire.HealthGPUCountDropped}
		}
		if state := f.beat(ad, 4, late); state != fleet.Active {
			t.Errorf("got %s, want old health left alone", state)
		}
		n := f.seen("box")
		if n.Counter != 5 || n.Hardware != written(twoGPUs) || !n.LastSeen.Equal(start.Add(time.Second)) || len(n.Reasons) != 0 {
			t.Errorf("got %+v, want counter 5 with its reading, seen now", n)
		}
		f.flush()
		if n := f.stored("box"); n.Counter != 5 || n.Hardware != written(twoGPUs) || !n.LastSeen.Equal(start.Add(time.Second)) {
			t.Errorf("in the database: got %+v", n)
		}
		f.beat(ad, 1, func(b *wire.HeartbeatRequest) {
			b.RunID = "run00002"
			b.Hardware = []byte(oneGPU)
		})
		if n := f.seen("box"); n.Counter != 1 || n.RunID != "run00002" || n.Hardware != written(oneGPU) {
			t.Errorf("another run: got %+v", n)
		}
	}
}

// TestBeatsAtOnce is for the race detector, and for last_seen, which never goes back.
func TestBeatsAtOnce(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	id := f.use(ad.Certificate.Fingerprint)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := range 50 {
				f.clock.Forward(time.Millisecond)
				b := &wire.HeartbeatRequest{RunID: "run00001", Counter: uint64(i), IntervalSeconds: 30}
				if _, err := f.Beat(context.Background(), id, fleet.Proof{Address: address, At: f.clock.Now()}, report(b, "{}")); err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					if err := f.Flush(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	f.flush()
	if n := f.stored("box"); n.LastSeen == nil || !n.LastSeen.Equal(f.clock.Now()) || n.Counter != 49 {
		t.Errorf("got %v and counter %d, want %v and 49", n.LastSeen, n.Counter, f.clock.Now())
	}
}

func TestHealth(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	for i, c := range []struct {
		health  []string
		state   fleet.State
		reasons string
	}{
		{[]string{}, fleet.Active, ""},
		{[]string{"made_up"}, fleet.Active, ""},
		{[]string{wire.HealthProbeHung, wire.HealthProbeHung}, fleet.Unavailable, "probe_hung"},
		{[]string{wire.HealthProbeHung}, fleet.Unavailable, "probe_hung"},
		{[]string{wire.HealthProbeHung, wire.HealthGPUCountDropped}, fleet.Unavailable, "gpu_count_dropped,probe_hung"},
		{[]string{wire.HealthGPUCountDropped}, fleet.Unavailable, "gpu_count_dropped"},
		{[]string{wire.HealthProbeFailed}, fleet.Unavailable, "probe_failed"},
		{[]string{}, fleet.Active, ""},
	} {
		state := f.beat(ad, uint64(2+i), health(c.health...))
		n := f.seen("box")
		if state != c.state || n.State != string(c.state) || reasons(n) != c.reasons {
			t.Errorf("%v: got %s and on record %s %s, want %s %s", c.health, state, n.State, reasons(n), c.state, c.reasons)
		}
	}
	failed := f.events("node.failed")
	cured := f.events("node.cured")
	if len(failed) != 4 || len(cured) != 1 || cured[0].Detail["to"] != "active" || failed[3].Detail["reasons"] != wire.HealthProbeHung {
		t.Errorf("got events %+v and %+v, want four and one", failed, cured)
	}
}

func reasons(n fleet.Node) string {
	var names []string
	for _, r := range n.Reasons {
		names = append(names, r.Reason)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// TestHealthBesideAPersonsWord: health reasons come and go, but the node stays in the state in which a person put it.
func TestHealthBesideAPersonsWord(t *testing.T) {
	for _, c := range []struct {
		verbs []fleet.Verb
		want  fleet.State
		left  string
	}{
		{[]fleet.Verb{fleet.Drain}, fleet.Drained, ""},
		{[]fleet.Verb{fleet.Suspend}, fleet.Unavailable, "suspended"},
		{[]fleet.Verb{fleet.Drain, fleet.Redeploy}, fleet.Deploying, ""},
	} {
		f := newFleet(t)
		ad := f.enrolled("box")
		f.beat(ad, 1, nil)
		for _, verb := range c.verbs {
			f.apply("box", verb)
		}
		if state := f.beat(ad, 2, health(wire.HealthGPUCountDropped)); state != c.want {
			t.Errorf("%v: got %s, want %s", c.verbs, state, c.want)
		}
		if got := reasons(f.seen("box")); !strings.Contains(got, wire.HealthGPUCountDropped) {
			t.Errorf("%v: got reasons %s, want the health beside", c.verbs, got)
		}
		state := f.beat(ad, 3, nil)
		if n := f.seen("box"); state != c.want || reasons(n) != c.left {
			t.Errorf("%v, cured: got %s %s, want %s %s", c.verbs, state, reasons(n), c.want, c.left)
		}
	}
}

// TestResumeWithAFault: a person resumes the node. Its next heartbeat still reports the fault, so it is unavailable again.
func TestResumeWithAFault(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	f.apply("box", fleet.Suspend)
	f.beat(ad, 2, health(wire.HealthGPUCountDropped))
	if n := f.apply("box", fleet.Resume); n.State != "active" || reasons(n) != "" {
		t.Errorf("got %s %s, want active", n.State, reasons(n))
	}
	if state := f.beat(ad, 3, health(wire.HealthGPUCountDropped)); state != fleet.Unavailable {
		t.Errorf("got %s, want unavailable again", state)
	}
	if state := f.beat(ad, 4, nil); state != fleet.Active {
		t.Errorf("got %s, want active", state)
	}
}

func TestBeatOfARetiredNode(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	id := f.identity(ad.Certificate.Fingerprint)
	f.apply("box", fleet.Retire)
	_, err := f.Beat(t.Context(), id, fleet.Proof{Address: address, At: f.clock.Now()},
		report(&wire.HeartbeatRequest{RunID: "run00001", IntervalSeconds: 30}, ""))
	if code(err) != wire.CodeIllegalMove {
		t.Errorf("got %v, want illegal_move", err)
	}
	if n := f.seen("box"); n.State != "retired" || n.LastSeen != nil {
		t.Errorf("got %s seen %v, want retired and never seen", n.State, n.LastSeen)
	}
}

// TestRun: when its context ends, Run writes the heartbeats that wait.
func TestRun(t *testing.T) {
	f := newFleet(t)
	f.beat(f.enrolled("box"), 1, nil)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n := f.stored("box"); n.LastSeen == nil {
		t.Error("the last heartbeats were not written")
	}
}
