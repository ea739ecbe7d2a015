package fleet_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// machine is a reading of so many GPUs; ills are their health lists, by place.
func machine(state string, gpus int, ills map[int]string) string {
	rows := make([]string, gpus)
	for i := range rows {
		health := ""
		if ills[i] != "" {
			health = `"` + strings.ReplaceAll(ills[i], ",", `","`) + `"`
		}
		rows[i] = fmt.Sprintf(`{"index":%d,"uuid":"GPU-%d","name":"NVIDIA H100",`+
			`"bus_id":"00000000:0%d:00.0","memory_source":"device","health":[%s]}`, i, i, i, health)
	}
	return `{"probe":{"state":"` + state + `"},"gpus":[` + strings.Join(rows, ",") + `]}`
}

// look is a heartbeat after a look. It says how many GPUs are known to exist; -1: an older agent, which does not say.
func look(state string, gpus, seen int, health ...string) func(*wire.HeartbeatRequest) {
	return func(b *wire.HeartbeatRequest) {
		b.Hardware = []byte(machine(state, gpus, nil))
		b.Health = append([]string{}, health...)
		if seen >= 0 {
			b.GPUsSeen = &seen
		}
	}
}

func unlooked(b *wire.HeartbeatRequest) { b.Health = nil }

// record is what the heartbeat's answer says; -1: nothing.
func (f *world) record(ad fleet.Admission) int {
	f.t.Helper()
	n := f.GPUsExpected(f.t.Context(), f.identity(ad.Certificate.Fingerprint))
	if n == nil {
		return -1
	}
	return *n
}

// TestRecordOfGPUs: the highest number that was seen is what a node has, until a person or an enrolment says otherwise.
func TestRecordOfGPUs(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		f := newFleet(t)
		ad := f.enrolled("box")
		counter := uint64(0)
		step := func(what string, want int, change func(*wire.HeartbeatRequest)) {
			t.Helper()
			counter++
			f.beat(ad, counter, change)
			if flushed {
				f.flush()
				f.restart()
			}
			if got := f.record(ad); got != want {
				t.Errorf("%s, flushed %v: got a record of %d, want %d", what, flushed, got, want)
			}
		}
		set := func(n int) {
			t.Helper()
			if _, err := f.SetGPUs(t.Context(), "", "box", n, operator); err != nil {
				t.Fatal(err)
			}
		}
		step("nobody has looked", -1, unlooked)
		step("no GPUs", -1, look(wire.ProbeAbsent, 0, 0))
		step("an agent of before", 2, look(wire.ProbeOK, 2, -1))
		step("eight", 8, look(wire.ProbeOK, 8, 8))
		step("seven of them", 8, look(wire.ProbeFailed, 8, 7, wire.HealthGPUCountDropped))
		step("seven, of an agent of before", 8, look(wire.ProbeOK, 7, -1))
		step("an absurd number", 8, look(wire.ProbeOK, 7, wire.MaxGPUs+1))
		set(7)
		step("a person says seven", 7, look(wire.ProbeOK, 7, 7))
		step("and eight are seen, one of them lost", 7, look(wire.ProbeOK, 7, 8))
		set(0)
		step("a person says none", 0, look(wire.ProbeAbsent, 0, 0))
		set(-1)
		step("a person says: as seen", 4, look(wire.ProbeOK, 4, 4))
		step("one more", 5, look(wire.ProbeOK, 5, 5))
	}
}

// TestNodeRemembersItsGPUs: after an update or a restore, the gateway may have no record. It then takes the number that the node
// remembers. A person's number goes first.
func TestNodeRemembersItsGPUs(t *testing.T) {
	remembers := func(n int, change func(*wire.HeartbeatRequest)) func(*wire.HeartbeatRequest) {
		return func(b *wire.HeartbeatRequest) {
			change(b)
			b.Hardware = []byte(strings.Replace(string(b.Hardware), `"gpus":`, fmt.Sprintf(`"gpus_expected":%d,"gpus":`, n), 1))
		}
	}
	seven := look(wire.ProbeFailed, 7, 7, wire.HealthGPUCountDropped)
	for _, c := range []struct {
		name   string
		change func(*wire.HeartbeatRequest)
		want   int
	}{
		{"an agent that has missed one since before", remembers(8, seven), 8},
		{"an agent of before", remembers(8, look(wire.ProbeFailed, 7, -1, wire.HealthGPUCountDropped)), 8},
		{"one that remembers fewer", remembers(6, look(wire.ProbeOK, 7, 7)), 7},
		{"an absurd memory", remembers(wire.MaxGPUs+1, look(wire.ProbeOK, 7, 7)), 7},
		{"no memory", look(wire.ProbeOK, 7, 7), 7},
	} {
		f := newFleet(t)
		ad := f.enrolled("box")
		f.beat(ad, 1, c.change)
		if got := f.record(ad); got != c.want {
			t.Errorf("%s: got a record of %d, want %d", c.name, got, c.want)
		}
		f.flush()
		f.restart()
		f.beat(ad, 2, look(wire.ProbeOK, 7, 7))
		if node := f.seen("box"); node.GPUsExpected != c.want || (node.State == string(fleet.Unavailable)) != (c.want == 8) {
			t.Errorf("%s: got %d and %s after a restart of both", c.name, node.GPUsExpected, node.State)
		}
	}
	f := newFleet(t)
	ad := f.enrolled("box")
	set := func(n, want int, change func(*wire.HeartbeatRequest)) {
		t.Helper()
		if _, err := f.SetGPUs(t.Context(), "", "box", n, operator); err != nil {
			t.Fatal(err)
		}
		f.flush()
		f.restart()
		f.beat(ad, 1, unlooked)
		f.beat(ad, 2, remembers(8, change))
		if got := f.record(ad); got != want {
			t.Errorf("a person said %d: got a record of %d, want %d", n, got, want)
		}
	}
	set(6, 6, seven)
	set(-1, 7, seven)
	set(-1, 0, look(wire.ProbeAbsent, 0, 0))
}

// TestRecordOfGPUsAtEnrolment: the number in the first reading counts, and so does the token's. A node that enrols again gets a new
// record.
func TestRecordOfGPUsAtEnrolment(t *testing.T) {
	f := newFleet(t)
	enrol := func(token string, gpus int, change func(*store.Token)) fleet.Admission {
		t.Helper()
		a := f.applicant(f.token(token, change), "box", newKey(t))
		a.Hardware = &wire.Hardware{GPUs: make([]wire.GPU, gpus)}
		ad, err := f.Enrol(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return ad
	}
	ad := enrol("mse_a", 4, nil)
	if got := f.record(ad); got != 4 || ad.Node.GPUsExpected != 4 {
		t.Errorf("a reading with 4: got a record of %d, and %d in the welcome", got, ad.Node.GPUsExpected)
	}
	f.beat(ad, 1, look(wire.ProbeOK, 8, 8))
	f.flush()
	f.allow(ad, time.Hour)
	ad = enrol("mse_b", 2, nil)
	if got := f.record(ad); got != 2 {
		t.Errorf("enrolled anew with 2: got a record of %d", got)
	}
	f.allow(ad, time.Hour)
	if got := f.record(enrol("mse_c", 2, func(q *store.Token) { q.GPUs = 8 })); got != 8 {
		t.Errorf("enrolled anew with a token that says 8: got a record of %d", got)
	}
	made, err := f.Create(t.Context(), api.CreateNodeRequest{Name: "made", Tenant: "platform", GPUs: 8}, operator)
	if err != nil {
		t.Fatal(err)
	}
	a := f.applicant(f.token("msb_d", func(q *store.Token) { q.NodeID = made.ID }), "made", newKey(t))
	a.Hardware = &wire.Hardware{GPUs: make([]wire.GPU, 7)}
	first, err := f.Enrol(t.Context(), a)
	if err != nil || f.record(first) != 8 {
		t.Errorf("a node that was made for 8: got a record of %d, %v", f.record(first), err)
	}
}

// TestHealthThatIsNotKnown: an agent that has not looked adds nothing and cures nothing. An agent that lost its memory cures nothing.
func TestHealthThatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*wire.HeartbeatRequest)
		want   string
	}{
		{"nobody has looked", unlooked, "gpu_count_dropped"},
		{"a fresh agent that sees seven", look(wire.ProbeOK, 7, 7), "gpu_count_dropped"},
		{"a fresh agent of before that sees seven", look(wire.ProbeOK, 7, -1), "gpu_count_dropped"},
		{"a fresh agent without nvidia-smi", look(wire.ProbeAbsent, 0, 0), "gpu_count_dropped"},
		{"an agent of before without nvidia-smi, and the rows of then", look(wire.ProbeAbsent, 8, -1), "gpu_count_dropped"},
		{"a probe that hangs", look(wire.ProbeHung, 7, -1, wire.HealthProbeHung), "probe_hung"},
		{"all eight", look(wire.ProbeOK, 8, 8), ""},
		{"all eight, of an agent of before", look(wire.ProbeSlow, 8, -1), ""},
	} {
		f := newFleet(t)
		ad := f.enrolled("box")
		f.beat(ad, 1, look(wire.ProbeOK, 8, 8))
		f.beat(ad, 2, look(wire.ProbeFailed, 8, 7, wire.HealthGPUCountDropped))
		f.flush()
		f.restart()
		state := f.beat(ad, 1, func(b *wire.HeartbeatRequest) {
			c.change(b)
			b.RunID = "run00002"
		})
		if n := f.seen("box"); reasons(n) != c.want || (state == fleet.Active) != (c.want == "") {
			t.Errorf("%s: got %s with %q, want %q", c.name, state, reasons(n), c.want)
		}
	}
}

// TestGPUsGone: nvidia-smi disappears under an agent that does not know better.
func TestGPUsGone(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, look(wire.ProbeOK, 8, -1))
	if state := f.beat(ad, 2, look(wire.ProbeAbsent, 8, -1)); state != fleet.Unavailable {
		t.Errorf("got %s, want unavailable", state)
	}
	if n := f.seen("box"); len(n.Reasons) != 1 || n.Reasons[0].Detail != "no nvidia-smi on this machine, while 8 GPUs are expected" {
		t.Errorf("got %+v", n.Reasons)
	}
	if _, err := f.SetGPUs(t.Context(), "", "box", 0, operator); err != nil {
		t.Fatal(err)
	}
	if state := f.beat(ad, 3, look(wire.ProbeAbsent, 8, -1)); state != fleet.Active {
		t.Errorf("a person says that it has none: got %s, want active", state)
	}
	e := f.events("node.gpus_expected")
	if len(e) != 1 || !e[0].Security || e[0].Detail["from"] != "8" || e[0].Detail["to"] != "0" || e[0].Actor != operator.Name {
		t.Errorf("got events %+v", e)
	}
}

func TestSetGPUsRefuses(t *testing.T) {
	f := newFleet(t)
	f.enrolled("box")
	for name, want := range map[string]string{"box": wire.CodeBadRequest, "nobody": wire.CodeNotFound} {
		n := 8
		if name == "box" {
			n = wire.MaxGPUs + 1
		}
		if _, err := f.SetGPUs(t.Context(), "", name, n, operator); code(err) != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	f.apply("box", fleet.Retire)
	if _, err := f.SetGPUs(t.Context(), "", "box", 8, operator); code(err) != wire.CodeIllegalMove {
		t.Errorf("a retired node: got %v", err)
	}
	if got := len(f.events("node.gpus_expected")); got != 0 {
		t.Errorf("%d events of what was refused", got)
	}
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.SetGPUs(t.Context(), "", "box", 8, operator); err == nil {
		t.Error("got no error from a closed store")
	}
}

// TestHealthDetail: a reason has a detail. The detail may change, but not with every heartbeat.
func TestHealthDetail(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	fault := func(counter uint64, detail string) {
		t.Helper()
		f.beat(ad, counter, func(b *wire.HeartbeatRequest) {
			b.Health = []string{wire.HealthGPUFault}
			b.HealthDetail = map[string]string{wire.HealthGPUFault: detail, "other": "x"}
		})
	}
	check := func(want string, events int) {
		t.Helper()
		n := f.seen("box")
		if n.State != "unavailable" || len(n.Reasons) != 1 || n.Reasons[0].Reason != wire.HealthGPUFault || n.Reasons[0].Detail != want {
			t.Errorf("got %s %+v, want %q", n.State, n.Reasons, want)
		}
		if got := len(f.events("node.failed")); got != events {
			t.Errorf("%d events, want %d", got, events)
		}
	}
	fault(1, "GPU-1 at 01:00.0\x1b[2J\n is lost")
	check("GPU-1 at 01:00.0 [2J is lost", 1)
	if e := f.events("node.failed")[0]; e.Detail["gpu_fault"] != "GPU-1 at 01:00.0 [2J is lost" || e.Detail["reasons"] != "gpu_fault" ||
		e.Detail["to"] != "unavailable" {
		t.Errorf("got event %+v", e)
	}
	fault(2, "GPU-1 and GPU-2 are lost")
	check("GPU-1 and GPU-2 are lost", 2)
	for i := range uint64(60) {
		f.clock.Forward(pace)
		fault(3+i, fmt.Sprintf("lost for %d s", 30*i))
	}
	if got := len(f.events("node.failed")); got < 6 || got > 10 {
		t.Errorf("%d events of words that change with every heartbeat for half an hour", got)
	}
	f.clock.Forward(time.Hour)
	fault(100, strings.Repeat("ü", 200))
	if n := f.seen("box"); len(n.Reasons[0].Detail) > wire.MaxHealthDetail || !strings.HasSuffix(n.Reasons[0].Detail, "ü...") {
		t.Errorf("got %q", n.Reasons[0].Detail)
	}
	if state := f.beat(ad, 101, nil); state != fleet.Active {
		t.Errorf("cured: got %s", state)
	}
}

// TestGPUHealthEvents: a mild fault in a row is an event when it appears and when it goes. It is no reason.
func TestGPUHealthEvents(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	counter := uint64(0)
	beat := func(ills map[int]string) {
		t.Helper()
		counter++
		f.clock.Forward(pace)
		seen := 8
		state := f.beat(ad, counter, func(b *wire.HeartbeatRequest) {
			b.GPUsSeen = &seen
			b.Hardware = []byte(machine(wire.ProbeOK, 8, ills))
		})
		if state != fleet.Active {
			t.Errorf("got %s", state)
		}
	}
	check := func(what string, count int, want map[string]string) {
		t.Helper()
		got := f.events("node.gpu_health")
		if len(got) != count || count > 0 && !maps.Equal(got[0].Detail, want) {
			t.Errorf("%s: got %+v, want %d, the last %v", what, got, count, want)
		}
	}
	beat(nil)
	beat(nil)
	check("well", 0, nil)
	beat(map[int]string{3: "ecc_uncorrected"})
	beat(map[int]string{3: "ecc_uncorrected"})
	check("one", 1, map[string]string{"GPU-3": "ecc_uncorrected"})
	f.flush()
	f.restart()
	beat(map[int]string{3: "ecc_uncorrected"})
	check("after a restart of the gateway", 1, map[string]string{"GPU-3": "ecc_uncorrected"})
	f.clock.Forward(time.Hour)
	beat(map[int]string{3: "ecc_uncorrected,remap_pending", 4: "remap_pending"})
	check("more", 2, map[string]string{"GPU-3": "ecc_uncorrected, remap_pending", "GPU-4": "remap_pending"})
	beat(map[int]string{3: "ecc_uncorrected"})
	check("what comes and goes within a minute", 3, map[string]string{"GPU-3": "ecc_uncorrected",
		"GPU-4": "well again, was: remap_pending"})
	f.beat(ad, counter+1, func(b *wire.HeartbeatRequest) { b.Hardware = []byte(machine(wire.ProbeOK, 3, nil)) }) // GPU-3 is gone
	counter++
	check("gone is not well", 3, map[string]string{"GPU-3": "ecc_uncorrected", "GPU-4": "well again, was: remap_pending"})
	for i := range 60 { // half an hour of coming and going
		beat(map[int]string{i % 2: "flaps"})
	}
	if got := len(f.events("node.gpu_health")); got < 30 || got > 40 {
		t.Errorf("%d events in half an hour", got)
	}
	f.clock.Forward(time.Hour)
	beat(nil)
	if last := f.events("node.gpu_health")[0]; !strings.HasPrefix(last.Detail["GPU-0"]+last.Detail["GPU-1"], "well again, was: flaps") {
		t.Errorf("got %+v", last)
	}
	f.clock.Forward(time.Hour)
	all := map[int]string{}
	for i := range 8 {
		all[i] = "x"
	}
	beat(all)
	f.clock.Forward(time.Hour)
	f.beat(ad, 1000, func(b *wire.HeartbeatRequest) { b.Hardware = []byte(machine(wire.ProbeOK, 12, map[int]string{9: "y"})) })
	if last := f.events("node.gpu_health")[0]; len(last.Detail) != 9 || last.Detail["more"] != "1 other GPU" {
		t.Errorf("got %+v", last.Detail)
	}
}

// TestGPUsWhileTheDatabaseIsAway: a record that could not be written is written later.
func TestGPUsWhileTheDatabaseIsAway(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, look(wire.ProbeOK, 8, 8))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Flush(gone) == nil {
		t.Fatal("a flush that could not write: got no error")
	}
	f.flush()
	if n, err := f.store.Node(t.Context(), "", "box"); err != nil || n.GPUsExpected != 8 {
		t.Errorf("got %d, %v", n.GPUsExpected, err)
	}
	f.beat(ad, 2, look(wire.ProbeOK, 8, 8))
	if got := f.record(ad); got != 8 {
		t.Errorf("got a record of %d", got)
	}
}
