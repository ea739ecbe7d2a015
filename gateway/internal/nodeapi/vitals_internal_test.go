package nodeapi

import (
	"encoding/json"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/release/rollout"
)

func TestVitals(t *testing.T) {
	for cost, want := range map[string]rollout.Vitals{
		`{"rss_kib":13312,"cpu_ms":1,"starts":{"recent":3,"crashes":2,"why":"panic: luck"}}`: {Crashes: 2, Crashed: "panic: luck", MemoryKiB: 13312},
		`{"rss_kib":null,"starts":null}`:            {},
		`{"starts":{"recent":null,"crashes":null}}`: {},
		`{}`:   {},
		`null`: {},
	} {
		var said *wire.Cost
		if err := json.Unmarshal([]byte(cost), &said); err != nil {
			t.Fatal(err)
		}
		if got := vitalsOf(said); got != want {
			t.Errorf("%s: %+v", cost, got)
		}
	}
}
