package reading_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
)

const gpu = `{"index":0,"uuid":"GPU-1","name":"NVIDIA H100","bus_id":"00000000:01:00.0","memory_source":"device","health":[]}`

const xid = `{"at":"2026-11-21T12:00:00Z","kind":"xid","bus_id":"","uuid":"","code":94,"text":"NVRM: Xid"}`

func hardware(gpus, rest string) string {
	return `{"probe":{"state":"ok","since":null,"took_ms":41,"sampled_at":"2026-11-21T12:00:00Z"},"gpus":[` + gpus + `]` + rest + `}`
}

func gpuWith(from, to string) string { return strings.Replace(gpu, from, to, 1) }

// TestFits: readings of this agent and of the version before it are kept byte for byte.
func TestFits(t *testing.T) {
	vector, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "wire", "hardware.json"))
	if err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(wire.Hardware{Probe: wire.Probe{State: wire.ProbeAbsent}, GPUs: []wire.GPU{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(vector), string(written), hardware("", ""), hardware(gpu, ""),
		hardware(gpu+" , "+gpu, `,"load1":1.5e-7,"kernel":"6.1 für Ümläute"`),
		hardware(gpu, `,"load1":999999999999999.1`), hardware(gpu, `,"load1":0.12345678901234567890123`),
		hardware(gpuWith(`"memory_source"`, `"memory_total_mib":0,"memory_used_mib":null,"memory_source"`), ""),
		hardware(gpuWith(`"health"`, `"temperature_celsius":-5,"health"`), ""),
		hardware(gpuWith(`"memory_source"`, `"vendor":"amd","memory_source"`), `,"xids":{"state":"ok","events":[`+xid+`]}`),
	} {
		text = strings.TrimSpace(text)
		if got, left := reading.Hardware.Mend(text); got != text || len(left) > 0 || !reading.Hardware.Fits([]byte(text)) {
			t.Errorf("%s\nwas taken for %s, less %v", text, got, left)
		}
	}
	for _, cost := range []string{
		`{"rss_kib":6400,"cpu_ms":250,"probe_ms":null}`, // of the first agents
		`{"rss_kib":6400,"cpu_ms":250,"probe_ms":null,"starts":{"recent":1,"crashes":0}}`,
	} {
		if !reading.Cost.Fits([]byte(cost)) {
			t.Errorf("%s does not fit", cost)
		}
	}
	if agent := `{"version":"v1","os":"linux","arch":"amd64"}`; !reading.Agent.Fits([]byte(agent)) {
		t.Errorf("%s does not fit", agent)
	}
}

// TestMend: members that do not fit are left out and named. All others stay.
func TestMend(t *testing.T) {
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
		{"a text for a number", hardware(gpu, `,"cpus":"16","load1":"1"`), "cpus load1", `"cpus":null`},
		{"a negative number", hardware(gpu, `,"memory_used_mib":-1`), "memory_used_mib", `"memory_used_mib":null`},
		{"a key twice", hardware(gpu, `,"cpus":1,"kernel":"k","cpus":2`), "cpus", `"cpus":null`},
		{"a key twice by an escape", hardware(gpu, `,"cpus":1,"c\u0070us":2`), "cpus", `"cpus":null`},
		{"a key in another case", hardware(gpu, `,"CPUS":1,"cpus":2`), "CPUS", `"cpus":2`},
		{"the GPUs twice", `{"probe":{"state":"ok"},"gpus":[` + gpu + `],"gpus":[]}`, "gpus", `"gpus":[]`},
		{"a key that nobody knows", hardware(gpu, `,"of_a_later_version":{"a":1}`), "of_a_later_version", `"uuid":"GPU-1"`},
		{"a name that is a trap", hardware(gpu, `,"\u001b[2J\ud800":1`), "?[2J?", ""},
		{"another order", `{"gpus":[` + gpu + `],"probe":{"state":"ok"}}`, "", `"state":"ok"`},
		{"an escape", hardware(gpu, `,"kernel":"\u0036.1"`), "", `"kernel":"6.1"`},
		{"a control character", hardware(gpuWith("GPU-1", `GPU\u0007`), ""), "gpus[0].uuid", `"uuid":""`},
		{"a control character of C1", hardware(gpuWith("GPU-1", "GPU\u0085"), ""), "gpus[0].uuid", `"uuid":""`},
		{"half a character", hardware(gpuWith("GPU-1", `GPU\ud800`), ""), "gpus[0].uuid", `"uuid":""`},
		{"an absurd text", hardware(gpuWith("GPU-1", strings.Repeat("x", 600)), ""), "gpus[0].uuid", `"uuid":""`},
		{"no index", hardware(gpu+","+gpuWith(`"index":0,`, ""), ""), "", `{"index":1`},
		{"a bad index", hardware(gpu+","+gpuWith(`"index":0`, `"index":-1`), ""), "gpus[1].index", `{"index":1`},
		{"a row that is none", hardware(`7,`+gpu+`,null`, ""), "gpus[0] gpus[2]", `"uuid":"GPU-1"`},
		{"health that is no list", hardware(gpuWith("[]", `"bad"`), ""), "gpus[0].health", `"health":[]`},
		{"health of numbers", hardware(gpuWith("[]", `[1,"ecc"]`), ""), "gpus[0].health[0]", `"health":["ecc"]`},
		{"null for a text", hardware(gpuWith(`"GPU-1"`, "null"), ""), "gpus[0].uuid", `"uuid":""`},
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
			"gpus[0] gpus[1] gpus[2] gpus[3] gpus[4] gpus[5] gpus[6] gpus[7] 92 more", `"gpus":[]`},
		{"a thousand members", `{` + strings.Repeat(`"a":1,`, 1000) + `"gpus":[]}`, "all of it", ""},
		{"a list", `[]`, "all of it", ""},
		{"no JSON", `{"gpus":`, "all of it", ""},
		{"two", `{}{}`, "all of it", ""},
		{"not UTF-8", "{\"kernel\":\"\xff\"}", "all of it", ""},
	} {
		got, left := reading.Hardware.Mend(c.text)
		if strings.Join(left, " ") != c.left || !strings.Contains(got, c.has) {
			t.Errorf("%s: got %s\nless %q, want %s in it, less %q", c.name, got, left, c.has, c.left)
		}
		if c.left != "all of it" {
			sound(t, got)
		}
	}
	if got, left := reading.Cost.Mend(`{"rss_kib":"str","cpu_ms":7}`); got != `{"rss_kib":null,"cpu_ms":7,"probe_ms":null,"starts":null}` ||
		len(left) != 1 {
		t.Errorf("cost: got %s less %v", got, left)
	}
	crashing := `{"rss_kib":1,"cpu_ms":7,"probe_ms":3,"starts":{"recent":4,"crashes":"3","why":"panic"}}`
	if got, left := reading.Cost.Mend(crashing); strings.Join(left, " ") != "starts.crashes" ||
		!strings.Contains(got, `"starts":{"recent":4,"crashes":null,"why":"panic"}`) {
		t.Errorf("starts: got %s less %v", got, left)
	}
	if got, left := reading.Agent.Mend(`{"version":1,"os":"linux"}`); got != `{"version":"","os":"linux","arch":"","release_ends":null}` || len(left) != 1 {
		t.Errorf("agent: got %s less %v", got, left)
	}
}

// sound fails if a reader with types cannot decode the text.
func sound(t *testing.T, text string) {
	t.Helper()
	var h wire.Hardware
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	if again, left := reading.Hardware.Mend(text); again != text || len(left) > 0 {
		t.Errorf("%s\nis not the end of it: %s less %v", text, again, left)
	}
	if h.GPUs == nil || h.Probe.State == "" || len(h.GPUs) > wire.MaxGPUs {
		t.Errorf("%s lacks what every reader counts on", text)
	}
}

// TestSummary: equal health lists of equal GPUs give equal hashes, and a healthy machine has the hash 0.
func TestSummary(t *testing.T) {
	look := func(gpus string) reading.Summary {
		s := reading.Scan([]byte(`{"hardware":` + hardware(gpus, "") + `}`))
		s.Shapes = func([]byte) *reading.Shape { return reading.Hardware }
		if !s.Next() || !s.Fits || s.Next() || !s.Whole() {
			t.Fatalf("%s does not fit", gpus)
		}
		return s.Seen
	}
	sick := gpuWith("[]", `["ecc"]`)
	other := strings.Replace(gpuWith("[]", `["ecc"]`), "GPU-1", "GPU-2", 1)
	if got := look(gpu + "," + gpu); got != (reading.Summary{State: "ok", GPUs: 2}) {
		t.Errorf("got %+v", got)
	}
	first := look(sick)
	again := look(sick)
	if first.Ills == 0 || first != again || look(sick) == look(other) || look(sick+","+other) == look(other+","+sick) {
		t.Errorf("got %+v, %+v", look(sick), look(other))
	}
	for _, kernel := range []string{"6.1", `\u0036.1`} { // in one pass, and not
		text := strings.Replace(hardware(gpu, `,"kernel":"`+kernel+`"`), `"gpus"`, `"gpus_expected":8,"gpus"`, 1)
		if got := reading.Summarise(text); got.Expected != 8 || got.GPUs != 1 {
			t.Errorf("%s: got %+v, want 8 expected", text, got)
		}
	}
	if look(sick).Ills == look(gpuWith("[]", `["ecc","retired"]`)).Ills {
		t.Error("another illness is the same")
	}
}

// FuzzMend: whatever a node sends, a reader with types can decode what Mend returns, and a text that fits means the same to
// encoding/json.
func FuzzMend(f *testing.F) {
	for _, seed := range []string{
		hardware(gpu, ""), hardware(gpu+","+gpu, `,"cpus":2,"load1":0.5,"kernel":"x"`), `{"gpus":"str"}`, `{"gpus":[{"index":1e999}]}`,
		`{"gpus":[],"gpus":[]}`, `{"probe":{"state":"ok","since":"2026-11-21T12:00:00Z"}}`, `{"gpus":[{"health":["\u0000"]}]}`,
		"{\"kernel\":\"\xff\"}", `[`, `{}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fits := reading.Hardware.Fits([]byte(text))
		got, left := reading.Hardware.Mend(text)
		if fits && (got != text || len(left) > 0) {
			t.Errorf("%q fits and was mended: %s less %v", text, got, left)
		}
		if len(left) == 1 && left[0] == "all of it" {
			return
		}
		sound(t, got)
		if len(left) > 9 {
			t.Errorf("%d names", len(left))
		}
	})
}
