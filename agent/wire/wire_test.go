package wire_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"muster/agent/wire"
)

const vectors = "../../testdata/wire"

// messages is the message that each vector holds. Vectors that leave fields out are marked short.
var messages = map[string]struct {
	into  any
	short bool
}{
	"register.json":         {into: &wire.RegisterRequest{}},
	"welcome.json":          {into: &wire.Welcome{}},
	"heartbeat.json":        {into: &wire.HeartbeatRequest{}},
	"heartbeat_short.json":  {into: &wire.HeartbeatRequest{}, short: true},
	"heartbeat_answer.json": {into: &wire.HeartbeatAnswer{}},
	"renew.json":            {into: &wire.RenewRequest{}},
	"renew_answer.json":     {into: &wire.RenewAnswer{}},
	"adopt.json":            {into: &wire.AdoptRequest{}},
	"adopt_answer.json":     {into: &wire.AdoptAnswer{}},
	"leave_answer.json":     {into: &wire.LeaveAnswer{}},
	"manifest.json":         {into: &wire.Manifest{}},
	"task_payload.json":     {into: &wire.TaskPayload{}},
	"signed_task.json":      {into: &wire.SignedTask{}},
	"task_started.json":     {into: &wire.TaskStarted{}},
	"task_output.json":      {into: &wire.TaskOutput{}},
	"task_progress.json":    {into: &wire.TaskProgress{}},
	"task_result.json":      {into: &wire.TaskResult{}},
	"task_secrets.json":     {into: &wire.TaskSecrets{}},
	"evidence.json":         {into: &wire.Evidence{}},
	"cleaning.json":         {into: &wire.Cleaning{}},
	"release.json":          {into: &wire.Release{}},
	"release_pointer.json":  {into: &wire.ReleasePointer{}},
	"error.json":            {into: &wire.Error{}},
	"error_short.json":      {into: &wire.Error{}, short: true},
	"hardware.json":         {into: &wire.Hardware{}},
	"hardware_unknown.json": {into: &wire.Hardware{}, short: true},
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A message that is decoded and encoded again must equal the vector, with every field in its order. The other end reads the same vectors.
func TestVectors(t *testing.T) {
	for name, m := range messages {
		data := read(t, name)
		sameJSON(t, name, data, m.into)
		if !m.short {
			complete(t, name, reflect.ValueOf(m.into).Elem())
		}
	}
}

func sameJSON(t *testing.T, name string, data []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	got, err := json.Marshal(into)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, data); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s: encoded again as\n%s\nwant\n%s", name, got, want.Bytes())
	}
}

// complete fails for a field that the vector leaves at zero, so that nobody forgets to add a new field to the vector.
func complete(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch {
	case v.IsZero():
		t.Errorf("%s is not in the vector", path)
	case v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[json.RawMessage]():
	case v.Kind() == reflect.Pointer:
		complete(t, path, v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			complete(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		complete(t, path+"[0]", v.Index(0))
	}
}

func TestEveryVectorIsRead(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectors, "*.json"))
	if err != nil || len(files) != len(messages) {
		t.Errorf("%d vectors and %d messages, %v", len(files), len(messages), err)
	}
	for _, file := range files {
		if messages[filepath.Base(file)].into == nil {
			t.Errorf("%s is not decoded by any test", file)
		}
	}
}

func TestHardwareInMessages(t *testing.T) {
	var register wire.RegisterRequest
	var heartbeat wire.HeartbeatRequest
	for name, m := range map[string]struct {
		into any
		raw  *json.RawMessage
	}{
		"register.json": {&register, &register.Hardware}, "heartbeat.json": {&heartbeat, &heartbeat.Hardware},
	} {
		if err := json.Unmarshal(read(t, name), m.into); err != nil {
			t.Fatal(err)
		}
		sameJSON(t, name+" hardware", *m.raw, &wire.Hardware{})
	}
	if heartbeat.Counter != 1<<64-1 {
		t.Errorf("the counter = %d, want all its 64 bits", heartbeat.Counter)
	}
	short := wire.HeartbeatRequest{}
	if err := json.Unmarshal(read(t, "heartbeat_short.json"), &short); err != nil || short.Hardware != nil {
		t.Errorf("a heartbeat without a reading has hardware %s, %v", short.Hardware, err)
	}
}

// A value that could not be read is null and never 0. A value of 0 stays 0.
func TestUnknownIsNull(t *testing.T) {
	for _, v := range []any{wire.Hardware{}, wire.GPU{}, wire.Clocks{}, wire.PCIe{}, wire.ECC{}, wire.Remaps{}, wire.Fabric{},
		wire.Processes{}, wire.NVLinks{}, wire.Xids{}, wire.Xid{}, wire.Probe{}, wire.Cost{}, wire.Starts{}} {
		fields := encoded(t, v)
		for i := range reflect.TypeOf(v).NumField() {
			field := reflect.TypeOf(v).Field(i)
			name := field.Tag.Get("json")
			if field.Type.Kind() == reflect.Pointer && string(fields[name]) != "null" {
				t.Errorf("%T.%s that is not known is %q, want null", v, field.Name, fields[name])
			}
		}
	}
	var zero int64
	if got := encoded(t, wire.GPU{MemoryUsedMiB: &zero})["memory_used_mib"]; string(got) != "0" {
		t.Errorf("no memory used = %s, want 0", got)
	}
	var gpu wire.GPU
	if err := json.Unmarshal([]byte(`{"memory_used_mib":0,"power_watts":null}`), &gpu); err != nil || gpu.MemoryUsedMiB == nil ||
		gpu.PowerWatts != nil || gpu.MIG != nil {
		t.Errorf("0, null and absent were read as %v, %v, %v (%v)", gpu.MemoryUsedMiB, gpu.PowerWatts, gpu.MIG, err)
	}
}

// A run that has not looked yet says null, which cures nothing. One that looked and found nothing wrong sends an empty list.
func TestHealthThatIsNotKnown(t *testing.T) {
	unknown := encoded(t, wire.HeartbeatRequest{})
	well := encoded(t, wire.HeartbeatRequest{Health: []string{}})
	const want = "null []"
	if got := string(unknown["health"]) + " " + string(well["health"]); got != want {
		t.Errorf("no look and a good one = %s, want %s", got, want)
	}
	var none int
	if got := encoded(t, wire.HeartbeatRequest{GPUsSeen: &none})["gpus_seen"]; string(got) != "0" || unknown["gpus_seen"] != nil {
		t.Errorf("no GPU seen and nothing known = %s, %s; want 0 and nothing", got, unknown["gpus_seen"])
	}
}

func encoded(t *testing.T, v any) map[string]json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// Measured numbers are pointers, because a plain number could not say that it is not known.
func TestMeasuredNumbersArePointers(t *testing.T) {
	plain := map[string]bool{"Index": true} // an index is not measured
	for _, typ := range []reflect.Type{
		reflect.TypeFor[wire.Hardware](), reflect.TypeFor[wire.GPU](), reflect.TypeFor[wire.Clocks](), reflect.TypeFor[wire.PCIe](),
		reflect.TypeFor[wire.ECC](), reflect.TypeFor[wire.Remaps](), reflect.TypeFor[wire.Fabric](), reflect.TypeFor[wire.Processes](),
		reflect.TypeFor[wire.Probe](), reflect.TypeFor[wire.Cost](), reflect.TypeFor[wire.NVLinks](), reflect.TypeFor[wire.Xids](),
		reflect.TypeFor[wire.Xid](), reflect.TypeFor[wire.Starts](),
	} {
		for i := range typ.NumField() {
			field := typ.Field(i)
			if kind := field.Type.Kind(); kind >= reflect.Bool && kind <= reflect.Float64 && !plain[field.Name] {
				t.Errorf("%s.%s is a plain %s", typ, field.Name, kind)
			}
		}
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	var got wire.Welcome
	if err := json.Unmarshal([]byte(`{"node_id":"n-1","of_a_later_version":{"a":[1]}}`), &got); err != nil || got.NodeID != "n-1" {
		t.Errorf("a later peer's welcome = %+v, %v", got, err)
	}
}

func TestPaths(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{wire.HeartbeatPath("n-1"), "/nodes/n-1/heartbeat"},
		{wire.LeavePath("n-1"), "/nodes/n-1/leave"},
		{wire.RenewPath("n-1"), "/internal/v1/nodes/n-1/renew"},
		{wire.AdoptPath("n-1"), "/internal/v1/nodes/n-1/adopt"},
		{wire.AgentPath("linux", "arm64"), "/agent/linux/arm64"},
		{wire.BootstrapScriptPath("msb_1_2"), "/api/v1/bootstrap/nodes/msb_1_2/script"},
		{wire.RegistryCredentialPath("{token}"), "/api/v1/bootstrap/nodes/{token}/registry-credential"},
	} {
		if tc.got != tc.want {
			t.Errorf("path = %s, want %s", tc.got, tc.want)
		}
	}
}
