package nodeapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestReadingsAreHeldToTheirShape: a value of the wrong type is left out of a reading. What was left out is named for as long as the rest
// of that reading is shown.
func TestReadingsAreHeldToTheirShape(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	beat := func(counter, members string) {
		t.Helper()
		body := `{"run_id":"run00001","counter":` + counter + `,"interval_seconds":30,"health":[],"notices":["no init system"]` + members + `}`
		s.want(members, s.plainly(n, wire.HeartbeatPath(n.id), []byte(body)), http.StatusOK, "ok")
	}
	const notice = "the gateway left out of hardware what does not fit its API: gpus, load1"
	check := func(when string, want ...string) {
		t.Helper()
		for _, flush := range []bool{false, true} {
			if flush {
				if err := s.fleet.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.fleet.Node(t.Context(), "", n.id)
			var h wire.Hardware
			if err != nil || !slices.Equal(got.Notices, want) || json.Unmarshal([]byte(got.Hardware), &h) != nil || h.GPUs == nil || *h.CPUs != 2 {
				t.Errorf("%s, flushed %v: got %v and %s, %v; want %v", when, flush, got.Notices, got.Hardware, err, want)
			}
			if got.Cost != `{"rss_kib":null,"cpu_ms":1,"probe_ms":null,"starts":null}` || got.Agent != `{"version":"v1","os":"","arch":"","release_ends":null}` {
				t.Errorf("%s, flushed %v: got %s, %s", when, flush, got.Cost, got.Agent)
			}
		}
	}
	const cost = `,"agent":{"version":"v1"},"cost":{"rss_kib":null,"cpu_ms":1,"probe_ms":null,"starts":null}`
	beat("1", cost+`,"hardware":{"probe":{"state":"ok"},"gpus":"str","cpus":2,"load1":1e999}`)
	check("a reading that does not fit", "no init system", notice)
	beat("2", cost)
	check("no reading", "no init system", notice)
	beat("3", cost+`,"hardware":{}`)
	check("an empty reading", "no init system", notice)
	beat("4", cost+`,"hardware":{"probe":{"state":"ok"},"gpus":[],"cpus":2}`)
	check("a reading that fits", "no init system")
	beat("5", `,"agent":{"version":"v1","os":7},"cost":{"rss_kib":"str","cpu_ms":1},"hardware":{"gpus":[],"cpus":2,"probe":{"state":"ok"}}`)
	check("what the agent says of itself", "no init system",
		"the gateway left out of agent what does not fit its API: os; the gateway left out of cost what does not fit its API: rss_kib")
}

// TestReadingsStay: nothing but a reading replaces a reading.
func TestReadingsStay(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	for i, members := range []string{`,"hardware":{"probe":{"state":"ok"},"gpus":[],"cpus":2}`, `,"hardware":null`, `,"hardware":{}`,
		`,"hardware": { } `, ``, ",\"hardware\":{\n}"} {
		body := `{"run_id":"run00001","counter":` + string(rune('1'+i)) + `,"interval_seconds":30,"health":[]` + members + `}`
		s.want(members, s.plainly(n, wire.HeartbeatPath(n.id), []byte(body)), http.StatusOK, "ok")
		if got, err := s.fleet.Node(t.Context(), "", n.id); err != nil || !strings.Contains(got.Hardware, `"cpus":2`) || len(got.Notices) > 0 {
			t.Errorf("%q: got %s and %v, %v", members, got.Hardware, got.Notices, err)
		}
	}
}

// TestReadingAtRegister: the first reading of a node is held to the shape too.
func TestReadingAtRegister(t *testing.T) {
	s := newSite(t, nil)
	q := s.application("box", newKey(t))
	q.Hardware = []byte(`{"probe":{"state":"ok"},"gpus":[{"index":"0","uuid":"GPU-1"}],"cpus":-1}`)
	s.want("a reading that does not fit", s.register(s.token(nil), encode(t, q)), http.StatusCreated, "ok")
	got, err := s.fleet.Node(t.Context(), "", "box")
	var h wire.Hardware
	if err != nil || json.Unmarshal([]byte(got.Hardware), &h) != nil || len(h.GPUs) != 1 || h.GPUs[0].UUID != "GPU-1" || h.CPUs != nil {
		t.Errorf("got %s, %v", got.Hardware, err)
	}
	if want := []string{"the gateway left out of hardware what does not fit its API: gpus[0].index, cpus"}; !slices.Equal(got.Notices, want) {
		t.Errorf("got notices %q, want %q", got.Notices, want)
	}
}

// TestRecordOfGPUsInTheAnswer: what the gateway remembers comes back to an agent that has forgotten.
func TestRecordOfGPUsInTheAnswer(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	beat := func(run, members, want, state string) {
		t.Helper()
		a := s.plainly(n, wire.HeartbeatPath(n.id), []byte(`{"run_id":"`+run+`","counter":1,"interval_seconds":30`+members+`}`))
		s.want(members, a, http.StatusOK, "ok")
		if got := string(a.body); want != "" && !strings.Contains(got, want) || want == "" && strings.Contains(got, "gpus_expected") ||
			!strings.Contains(got, `"state":"`+state+`"`) {
			t.Errorf("%s: got %s, want %s in it and the state %s", members, got, want, state)
		}
	}
	beat("run00001", `,"health":null`, "", "active")
	beat("run00002", `,"health":[],"gpus_seen":8`, `"gpus_expected":8`, "active")
	beat("run00003", `,"health":null`, `"gpus_expected":8`, "active")
	beat("run00004", `,"health":[],"gpus_seen":7`, `"gpus_expected":8`, "unavailable")
	beat("run00005", `,"health":null`, `"gpus_expected":8`, "unavailable")
	beat("run00006", `,"health":["gpu_fault"],"gpus_seen":8,"health_detail":{"gpu_fault":"GPU-1 at 01:00.0 is lost"}`,
		`"state_reasons":["gpu_fault"]`, "unavailable")
	got, err := s.fleet.Node(t.Context(), "", n.id)
	if err != nil || len(got.Reasons) != 1 || got.Reasons[0].Detail != "GPU-1 at 01:00.0 is lost" || got.GPUsExpected != 8 {
		t.Errorf("got %+v and %d GPUs, %v", got.Reasons, got.GPUsExpected, err)
	}
	beat("run00007", `,"health":[],"gpus_seen":8`, `"gpus_expected":8`, "active")
}
