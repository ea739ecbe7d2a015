package reading_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view/reading"
)

const gpu = `{"index":0,"uuid":"GPU-1","name":"NVIDIA H100","bus_id":"00000000:01:00.0","memory_source":"device","health":[]}`

const xid = `{"at":"2026-11-21T12:00:00Z","kind":"xid","bus_id":"","uuid":"","code":94,"text":"NVRM: Xid"}`

func hardware(gpus, rest string) string {
	return `{"probe":{"state":"ok","since":null,"took_ms":41,"sampled_at":"2026-11-21T12:00:00Z"},"gpus":[` + gpus + `]` + rest + `}`
}

func gpuWith(from, to string) string { return strings.Replace(gpu, from, to, 1) }

// beat is a heartbeat with these members beside those that each must have.
func beat(members string) []byte {
	return []byte(`{"run_id":"run00001","counter":1,"interval_seconds":30` + members + `}`)
}

const notice = "the gateway left out of %s what does not fit its API: "

// read decodes a part of a heartbeat, and returns it as text, with the names of what was left out.
func read(t *testing.T, part, text string) (got, left string) {
	t.Helper()
	b, err := reading.ParseHeartbeat(beat(`,"` + part + `":` + text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var of any = b.Hardware
	switch part {
	case "cost":
		of = b.Cost
	case "agent":
		of = b.Agent
	}
	encoded, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded), strings.TrimPrefix(b.LeftOut, fmt.Sprintf(notice, part))
}

// TestReadingsThatFit: what this agent and the one before it send stays as it is.
func TestReadingsThatFit(t *testing.T) {
	vector, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "wire", "hardware.json"))
	if err != nil {
		t.Fatal(err)
	}
	absent, err := json.Marshal(wire.Hardware{Probe: wire.Probe{State: wire.ProbeAbsent}, GPUs: []wire.GPU{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(vector), string(absent), hardware("", ""), hardware(gpu, ""),
		hardware(gpu+" , "+gpuWith(`"index":0`, `"index":1`), `,"load1":1.5e-7,"kernel":"6.1 für Ümläute"`),
		hardware(gpu, `,"load1":999999999999999.1`), hardware(gpu, `,"load1":0.12345678901234567890123`),
		hardware(gpuWith(`"memory_source"`, `"memory_total_mib":0,"memory_used_mib":null,"memory_source"`), ""),
		hardware(gpuWith(`"health"`, `"temperature_celsius":-5,"health"`), ""),
		hardware(gpuWith(`"memory_source"`, `"vendor":"amd","memory_source"`), `,"xids":{"state":"ok","events":[`+xid+`]}`),
		hardware(gpu, `,"of_a_later_version":{"a":1}`),
	} {
		var want wire.Hardware
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, left := read(t, "hardware", text); got != string(encoded) || left != "" {
			t.Errorf("%s\nwas taken for %s, less %v", text, got, left)
		}
	}
}

// TestReadingsThatDoNotFit: what does not fit is left out and named. All the rest stays.
func TestReadingsThatDoNotFit(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(gpu+",", wire.MaxGPUs+1), ",")
	for _, c := range []struct{ name, text, left, has string }{
		{"a text for the GPUs", `{"probe":{"state":"ok"},"gpus":"str","cpus":2}`, "gpus", `"gpus":[],"cpus":2`},
		{"null for the GPUs", `{"probe":{"state":"ok"},"gpus":null}`, "", `"gpus":[]`},
		{"no GPUs", `{"probe":{"state":"absent"}}`, "", `"gpus":[]`},
		{"no probe", `{"gpus":[]}`, "", `"state":"failed"`},
		{"a text for the probe", `{"probe":"ok","gpus":[]}`, "probe", `"state":"failed"`},
		{"a state that nobody knows", `{"probe":{"state":"fine"},"gpus":[]}`, "probe.state", `"state":"failed"`},
		{"a number that nobody holds", hardware(gpu, `,"load1":1e999`), "load1", `"load1":null`},
		{"a number whose sum nobody holds", hardware(gpu, `,"load1":1.7e308`), "load1", `"load1":null`},
		{"the same without an exponent", hardware(gpu, `,"load1":1000000000000000`), "load1", `"load1":null`},
		{"a whole number that JavaScript rounds", hardware(gpu, `,"memory_total_mib":9007199254740993`), "memory_total_mib",
			`"memory_total_mib":null`},
		{"a fraction for a whole number", hardware(gpu, `,"cpus":1.5`), "cpus", `"cpus":null`},
		{"an exponent for a whole number", hardware(gpu, `,"cpus":1e1`), "cpus", `"cpus":null`},
		{"a text for a number", hardware(gpu, `,"cpus":"16","load1":"1"`), "cpus, load1", `"cpus":null`},
		{"a negative number", hardware(gpu, `,"memory_used_mib":-1`), "memory_used_mib", `"memory_used_mib":null`},
		{"an escape", hardware(gpu, `,"kernel":"\u0036.1"`), "", `"kernel":"6.1"`},
		{"a control character", hardware(gpuWith("GPU-1", `GPU\u0007`), ""), "gpus[0].uuid", `"uuid":""`},
		{"a control character of C1", hardware(gpuWith("GPU-1", "GPU\u0085"), ""), "gpus[0].uuid", `"uuid":""`},
		{"half a character", hardware(gpuWith("GPU-1", `GPU\ud800`), ""), "gpus[0].uuid", `"uuid":""`},
		{"an absurd name of a process", hardware(gpuWith(`"index"`, `"processes":{"list":[{"pid":1,"user":"`+strings.Repeat("x", 65)+
			`"},{"pid":2,"user":"ada"}]},"index"`), ""), "gpus[0].processes.list[0].user",
			`"list":[{"pid":1,"memory_mib":null},{"pid":2,"user":"ada"`},
		{"an absurd list of processes", hardware(gpuWith(`"index"`, `"processes":{"list":[`+strings.Repeat(`{"pid":1},`, wire.MostProcesses)+
			`{"pid":7}]},"index"`), ""), "gpus[0].processes.list from 16 on", `{"pid":1,"memory_mib":null}]`},
		{"a process that says nothing", hardware(gpuWith(`"index"`, `"processes":{"count":1,"list":[{"memory_mib":null}]},"index"`), ""),
			"gpus[0].processes.list[0]", `"count":1`},
		{"an absurd text", hardware(gpuWith("GPU-1", strings.Repeat("x", 600)), ""), "gpus[0].uuid", `"uuid":""`},
		{"no index", hardware(gpu+","+gpuWith(`"index":0,`, ""), ""), "", `{"index":1`},
		{"a bad index", hardware(gpu+","+gpuWith(`"index":0`, `"index":-1`), ""), "gpus[1].index", `{"index":1`},
		{"a row that is none", hardware(`7,`+gpu+`,null`, ""), "gpus[0], gpus[2]", `"uuid":"GPU-1"`},
		{"health that is no list", hardware(gpuWith("[]", `"bad"`), ""), "gpus[0].health", `"health":[]`},
		{"health of numbers", hardware(gpuWith("[]", `[1,"ecc"]`), ""), "gpus[0].health[0]", `"health":["ecc"]`},
		{"another source of memory", hardware(gpuWith("device", "cloud"), ""), "gpus[0].memory_source", `"memory_source":"device"`},
		{"another vendor", hardware(gpuWith(`"memory_source"`, `"vendor":"matrox","memory_source"`), ""), "gpus[0].vendor", `"uuid":"GPU-1"`},
		{"a kernel in another state", hardware(gpu, `,"xids":{"state":"fine","events":null}`), "xids.state",
			`"xids":{"state":"not_available","events":[]}`},
		{"too many events of the kernel", hardware(gpu, `,"xids":{"state":"ok","events":[`+strings.Repeat(xid+",", wire.MaxXids)+xid+`]}`),
			"xids.events from 16 on", `"code":94`},
		{"a time that is none", hardware(gpu, `,"boot_time":"yesterday"`), "boot_time", `"boot_time":null`},
		{"a time in another zone", hardware(gpu, `,"boot_time":"2026-11-21T12:00:00+02:00"`), "", `"boot_time":"2026-11-21T10:00:00Z"`},
		{"a time that UTC does not have", hardware(gpu, `,"boot_time":"0000-01-01T00:00:00+23:00"`), "boot_time", `"boot_time":null`},
		{"too many GPUs", hardware(many, ""), fmt.Sprintf("gpus from %d on", wire.MaxGPUs), `"uuid":"GPU-1"`},
		{"a hundred wrong members", hardware(strings.TrimSuffix(strings.Repeat("7,", 100), ","), ""),
			"gpus[0], gpus[1], gpus[2], gpus[3], gpus[4], gpus[5], gpus[6], gpus[7], 92 more", `"gpus":[]`},
	} {
		got, left := read(t, "hardware", c.text)
		if left != c.left || !strings.Contains(got, c.has) {
			t.Errorf("%s: got %s\nless %q, want %s in it, less %q", c.name, got, left, c.has, c.left)
		}
		sound(t, []byte(got))
	}
	for _, c := range []struct{ part, text, left, want string }{
		{"cost", `{"rss_kib":"str","cpu_ms":7}`, "rss_kib", `{"rss_kib":null,"cpu_ms":7,"probe_ms":null,"starts":null}`},
		{"cost", `{"rss_kib":1,"cpu_ms":7,"probe_ms":3,"starts":{"recent":4,"crashes":"3","why":"panic"}}`, "starts.crashes",
			`{"rss_kib":1,"cpu_ms":7,"probe_ms":3,"starts":{"recent":4,"crashes":null,"why":"panic"}}`},
		{"agent", `{"version":1,"os":"linux"}`, "version", `{"version":"","os":"linux","arch":"","release_ends":null}`},
		{"hardware", `{ }`, "", "null"},
		{"hardware", `{"cpus":-1}`, "cpus", `{"probe":{"state":"failed"`},
		{"hardware", `{"cpus":"8"}`, "cpus", "null"},
		{"hardware", `{"gpus":[` + gpu + `],"probe":{"state":"ok"},"cpus":2}`, "", `"cpus":2`}, // in another order
	} {
		if got, left := read(t, c.part, c.text); !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) || left != c.left {
			t.Errorf("%s: got %s less %q, want %s less %q", c.text, got, left, c.want, c.left)
		}
	}
}

// TestListThatIsNone: a list that cannot be read is not known. An empty one would say that there is nothing.
func TestListThatIsNone(t *testing.T) {
	b, err := reading.ParseHeartbeat(beat(`,"hardware":{"probe":{"state":"ok"},"gpus":[],"runs":"none"}`))
	if err != nil || b.Hardware.Runs != nil || !strings.HasSuffix(b.LeftOut, ": runs") {
		t.Errorf("got %#v, left out %q, %v", b.Hardware.Runs, b.LeftOut, err)
	}
}

// sound fails if a reading lacks what every reader counts on.
func sound(t *testing.T, text []byte) {
	t.Helper()
	var h *wire.Hardware
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil || h == nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	if h.GPUs == nil || h.Probe.State == "" || len(h.GPUs) > wire.MaxGPUs {
		t.Errorf("%s lacks what every reader counts on", text)
	}
	for _, g := range h.GPUs {
		if g.Health == nil || g.MemorySource == "" {
			t.Errorf("%s has a GPU that lacks what every reader counts on", text)
		}
	}
}

// TestTellsEnds: an agent that says nothing of its pointer's end is not one that knows no pointer.
func TestTellsEnds(t *testing.T) {
	ends := time.Date(2027, 2, 20, 12, 0, 0, 0, time.UTC)
	for agent, want := range map[string]struct {
		ends  *time.Time
		tells bool
	}{
		`{"version":"1"}`:                                       {nil, false},
		`{"version":"1","release_ends":null}`:                   {nil, true},
		`{"release_ends":"2027-02-20T12:00:00Z","version":"1"}`: {&ends, true},
		`{"release_ends":"soon","version":"1"}`:                 {nil, true},
		"null":                                                  {nil, false},
	} {
		b, err := reading.ParseHeartbeat(beat(`,"agent":` + agent))
		if err != nil {
			t.Fatal(err)
		}
		if said := b.Agent; b.TellsEnds != want.tells || said != nil && !reflect.DeepEqual(said.ReleaseEnds, want.ends) {
			t.Errorf("%s: got %+v, tells %v", agent, b.Agent, b.TellsEnds)
		}
	}
}

// TestOfRegister: the agent and the hardware of a register request are held to the same.
func TestOfRegister(t *testing.T) {
	q := wire.RegisterRequest{Hardware: []byte(`{"cpus":"8","probe":{"state":"ok"}}`), Agent: wire.AgentInfo{Version: "1\a", OS: "linux"}}
	h, notices := reading.OfRegister(&q)
	if h == nil || h.CPUs != nil || h.Probe.State != wire.ProbeOK || q.Agent != (wire.AgentInfo{OS: "linux"}) ||
		strings.Join(notices, "; ") != fmt.Sprintf(notice, "hardware")+"cpus; "+fmt.Sprintf(notice, "agent")+"version" {
		t.Errorf("got %+v and %+v, less %q", h, q.Agent, notices)
	}
	if h, notices := reading.OfRegister(&wire.RegisterRequest{Hardware: []byte("null")}); h != nil || notices != nil {
		t.Errorf("got %+v, %v of nothing", h, notices)
	}
}

// TestIlls: a GPU is known by its UUID, or by its place, and what it says fits a line.
func TestIlls(t *testing.T) {
	found, shown := reading.Ills(&wire.Hardware{GPUs: []wire.GPU{{UUID: "GPU-1", Health: []string{"hot", "ecc\n "}},
		{Index: 1, Health: []string{"lost"}}, {Index: 2, UUID: "GPU-3"}}})
	if len(found) != 2 || found["GPU-1"] != "hot, ecc" || found["gpu 1"] != "lost" {
		t.Errorf("found %v", found)
	}
	if !shown["GPU-1"] || !shown["gpu 1"] || !shown["GPU-3"] || shown["GPU-2"] {
		t.Errorf("shown %v", shown)
	}
}

// FuzzParseHeartbeat: whatever a node sends is refused, or decoded into values that can be written and read again and then fit as they
// are.
func FuzzParseHeartbeat(f *testing.F) {
	for _, seed := range []string{
		hardware(gpu, ""), hardware(gpu+","+gpu, `,"cpus":2,"load1":0.5,"kernel":"x"`), `{"gpus":"str"}`, `{"gpus":[{"index":1e999}]}`,
		`{"gpus":[{"processes":{"count":2,"at":"2026-11-21T12:00:00Z","list":[{"pid":-1,"user":"\u001b"},null,{"memory_mib":1e99}]}}]}`,
		`{"gpus":[],"gpus":[]}`, `{"probe":{"state":"ok","since":"2026-11-21T12:00:00Z"}}`, `{"gpus":[{"health":["\u0000"]}]}`,
		"{\"kernel\":\"\xff\"}", `[`, `{}`, `{"GPUS":7}`, `{"gpus":[null,{"index":3}],"xids":{"events":[null]}}`,
	} {
		f.Add(beat(`,"hardware":` + seed))
	}
	for _, seed := range []string{"nul", "", "{}", `{"counter":-1}`} {
		f.Add([]byte(seed))
	}
	for _, seed := range []string{
		`,"notices":[],"health":[ ],"agent":null,"cost":{"a":{}}`, `,"skew_ms":-3,"counter":2`, `,"agent":7`, `,"health":null,"gpus_seen":8`,
		`,"update":{"channel":"stable","seq":3,"phase":"trial","log":"a\nb"}`, `,"update":{"seq":1e400}`, `,"unshipped":["kernel"]`,
		`,"agent":{"version":"\u001b[2J","os":1},"cost":{"starts":{"crashes":1e3}}`,
	} {
		f.Add(beat(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := reading.ParseHeartbeat(body)
		if err != nil || b.Hardware == nil {
			return
		}
		text, err := json.Marshal(b.Hardware)
		if err != nil {
			t.Fatal(err)
		}
		sound(t, text)
		again, err := reading.ParseHeartbeat(beat(`,"hardware":` + string(text)))
		if err != nil || again.LeftOut != "" {
			t.Fatalf("%s is not the end of it: %v, less %s", text, err, again.LeftOut)
		}
		if second, err := json.Marshal(again.Hardware); err != nil || !bytes.Equal(text, second) {
			t.Errorf("%s becomes %s", text, second)
		}
	})
}
