package region_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"

	"muster/gateway/internal/maas/region"
)

// whole is a machine with all fields.
const whole = `{"system_id":"abc","hostname":"h1","fqdn":"h1.maas","status":6,"status_message":"Deployed","error_description":"",` +
	`"owner":"muster","pool":{"id":0,"name":"default"},"zone":{"id":1,"name":"z1"},"locked":false,"ephemeral_deploy":true,` +
	`"power_type":"ipmi","power_state":"on","tag_names":["gpu","b"],"ip_addresses":["10.0.0.7"],` +
	`"interface_set":[{"mac_address":"52:54:00:00:00:01"},{"mac_address":null}],` +
	`"hardware_uuid":"u-1","hardware_info":{"system_vendor":"Dell","system_product":"XE9680","system_serial":"Unknown"},` +
	`"architecture":"amd64/generic","cpu_count":112,"memory":2097152,"osystem":"ubuntu","distro_series":"noble","hwe_kernel":null,` +
	`"commissioning_status":2,"resource_uri":"/x","storage":1.5}`

// TestReadMachine: each field is read, and what is null, missing or odd is not known. It is never zero, and never another word.
func TestReadMachine(t *testing.T) {
	t.Parallel()
	m, err := region.ReadMachine(strings.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(m)
	const want = `{"ID":"abc","Hostname":"h1","Status":6,"Error":"","Owner":"muster","Pool":"default","Zone":"z1","Locked":false,` +
		`"Power":"on","Tags":["gpu","b"],"MACs":["52:54:00:00:00:01"],"UUID":"u-1","CPUs":112,"MemoryMiB":2097152,"Series":"noble"}`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	const odd = `{"system_id":"abc","status":99,"locked":"no","ephemeral_deploy":0,"power_state":"melting","tag_names":["a",1],` +
		`"ip_addresses":{},"cpu_count":"8","memory":1e99,"commissioning_status":null,"owner":7,"pool":"x",` +
		`"interface_set":"none","hardware_info":[]}`
	m, err = region.ReadMachine(strings.NewReader(odd))
	if err != nil || m.Status != 99 || m.Locked != nil || m.Power != "unknown" || m.Tags != nil ||
		m.CPUs != nil || m.MemoryMiB != nil || m.Owner != "" || m.Pool != "" || m.MACs != nil {
		t.Errorf("%+v, %v", m, err)
	}
	for _, text := range []string{`{"status":4}`, `{"system_id":"a b","status":4}`, `{"system_id":"abc","status":null}`,
		`{"system_id":"abc","status":4.5}`, `{"system_id":"abc","status":"4"}`, `[]`, `7`, `{"system_id":"abc","status":4}x`,
		`{"system_id":"abc","status":4`} {
		if m, err := region.ReadMachine(strings.NewReader(text)); err == nil {
			t.Errorf("%s is %+v", text, m)
		}
	}
}

// TestReadMachines: half a list, a second list and a row without an end are errors. So is a row that is no machine.
func TestReadMachines(t *testing.T) {
	t.Parallel()
	count := 0
	each := func(region.Machine) error { count++; return nil }
	if err := region.ReadMachines(strings.NewReader("["+whole+","+whole+"]"), each); err != nil || count != 2 {
		t.Errorf("%d, %v", count, err)
	}
	if err := region.ReadMachines(strings.NewReader("[]"), each); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "{}", "[", "[" + whole, "[" + whole + ",", "[" + whole + ",]", "[null]", "[" + whole + "][]", "[[]]",
		`["x"]`} {
		if err := region.ReadMachines(strings.NewReader(text), each); err == nil {
			t.Errorf("%.40s is a list", text)
		}
	}
	endless := io.MultiReader(strings.NewReader(`[{"system_id":"`), ones{})
	if err := region.ReadMachines(endless, each); err == nil || !strings.Contains(err.Error(), "longer than any") {
		t.Errorf("a row without an end: %v", err)
	}
	if _, err := region.ReadMachine(ones{}); err == nil {
		t.Error("an answer without an end is read")
	}
}

// ones never ends.
type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '1'
	}
	return len(p), nil
}

// FuzzMachines: whatever comes, a machine that is read has an id and a status that stood there, and its texts are short and plain.
func FuzzMachines(f *testing.F) {
	for _, seed := range []string{"[" + whole + "]", `[{"system_id":"abc","status":4}]`, `[{"system_id":"abc","status":"4"}]`, `[null]`, `[`,
		`[{"system_id":"abc","status":4,"tag_names":["\u0000"],"hostname":"\u001b[31m"}]`, `{"a":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var all []region.Machine
		err := region.ReadMachines(bytes.NewReader(text), func(m region.Machine) error { all = append(all, m); return nil })
		for _, m := range all {
			if m.ID == "" || strings.ContainsAny(m.ID, "/ .") {
				t.Errorf("its id is %q", m.ID)
			}
			for _, word := range append([]string{m.Hostname, m.Pool, m.Error, m.Owner, m.UUID, m.Power}, m.Tags...) {
				if len(word) > 256 || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%q", word)
				}
			}
		}
		if err == nil && !json.Valid(text) {
			t.Error("what is no JSON was read")
		}
	})
}

// FuzzTags: a tag that is read has a name.
func FuzzTags(f *testing.F) {
	f.Add([]byte(`[{"name":"gpu","definition":"","comment":"c","kernel_opts":null}]`))
	f.Add([]byte(`[{"name":"a b"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = region.ReadTags(bytes.NewReader(text), func(tag region.Tag) error {
			if tag.Name == "" || strings.ContainsAny(tag.Name, "/ .") || len(tag.Definition) > 4096 {
				t.Errorf("%+v", tag)
			}
			return nil
		})
	})
}

// FuzzSay: what MAAS says is shown short, plain and without the key.
func FuzzSay(f *testing.F) {
	for _, seed := range []string{`{"a":["b"]}`, "verySecretKey", "token22 mse_abc", `{"verySecretKey":["x"]}`, strings.Repeat("QUJD", 40),
		"very\x00SecretKey", strings.Repeat("x ", 900) + "verySecretKey"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := region.Plain(apiKey, region.Say(text))
		if len(got) > region.LongestText || strings.Contains(got, "verySecretKey") || strings.Contains(got, "token22") ||
			strings.Contains(got, "mse_abc") || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q", got)
		}
	})
}

// TestKindOf: other errors have no kind.
func TestKindOf(t *testing.T) {
	t.Parallel()
	if k := region.KindOf(errors.New("x")); k != "" || region.KindOf(nil) != "" {
		t.Errorf("%q", k)
	}
}
