package reading_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/view/reading"
)

// figures are the members that are other ones in each reading. All else, and each member that comes later, is written when it changes.
var figures = []string{
	"disk_used_mib", "gpus[0].clocks", "gpus[0].decoder_utilization_percent", "gpus[0].encoder_utilization_percent", "gpus[0].fan_percent",
	"gpus[0].memory_free_mib", "gpus[0].memory_reserved_mib", "gpus[0].memory_temperature_celsius", "gpus[0].memory_used_mib",
	"gpus[0].memory_utilization_percent", "gpus[0].pcie.generation", "gpus[0].performance_state", "gpus[0].power_watts",
	"gpus[0].processes", "gpus[0].temperature_celsius", "gpus[0].utilization_percent", "load1", "memory_used_mib", "probe.sampled_at",
	"probe.took_ms",
}

func TestSteady(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "wire", "hardware.json"))
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Hardware
	if err := json.Unmarshal(text, &h); err != nil {
		t.Fatal(err)
	}
	before := members(t, h)
	for name, got := range map[string]struct {
		h    *wire.Hardware
		gone []string
	}{
		"steady": {reading.Steady(&h), figures},
		"past":   {reading.Past(&h), []string{"disk_used_mib", "load1", "memory_used_mib"}},
	} {
		want := maps.Clone(before)
		maps.DeleteFunc(want, func(path, _ string) bool {
			return slices.ContainsFunc(got.gone, func(g string) bool { return path == g || len(path) > len(g) && path[:len(g)+1] == g+"." })
		})
		after := members(t, *got.h)
		for path := range before {
			if want[path] != after[path] {
				t.Errorf("%s: %s is %q, want %q", name, path, after[path], want[path])
			}
		}
	}
	if !maps.Equal(before, members(t, h)) {
		t.Error("the reading itself was changed")
	}
	if reading.Steady(nil) != nil {
		t.Error("of no reading there is something")
	}
}

// members are all values of a reading but null, of its first GPU too, by their paths.
func members(t *testing.T, h wire.Hardware) map[string]string {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			for name, member := range v {
				if path != "" {
					name = path + "." + name
				}
				walk(name, member)
			}
		case []any:
			for i, element := range v[:min(len(v), 1)] {
				walk(fmt.Sprintf("%s[%d]", path, i), element)
			}
		default:
			found[path] = fmt.Sprint(v)
		}
	}
	walk("", all)
	return found
}
