package nodeapi

import (
	"encoding/json"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/release/rollout"
)

func TestVitals(t *testing.T) {
	for cost, want := range map[string]rollout.Vitals{
		`{"rss_kib":13312,"cpu_ms":1,"starts":{"recent":3,"crashes":2,"why":"panic: luck"}}`: {Crashes: 2, Crashed: "panic: luck", MemoryKiB: 13312},
		`{"rss_kib":null,"starts":null}`:            {},
		`{"starts":{"recent":null,"crashes":null}}`: {},
		`{}`:               {},
		`{"rss_kib":"13"}`: {},
	} {
		if got := vitalsOf([]byte(cost)); got != want {
			t.Errorf("%s: %+v", cost, got)
		}
	}
}

// FuzzVitals: whatever an agent says, what is read is what it says, or nothing.
func FuzzVitals(f *testing.F) {
	f.Add([]byte(`{"rss_kib":13312,"starts":{"recent":3,"crashes":2,"why":"panic"}}`))
	f.Add([]byte(`{"rss_kib":-1,"starts":[{"crashes":2}]}`))
	f.Fuzz(func(t *testing.T, cost []byte) {
		got := vitalsOf(cost)
		var said wire.Cost
		if json.Unmarshal(cost, &said) != nil {
			return
		}
		if got.MemoryKiB != 0 && (said.RSSKiB == nil || *said.RSSKiB != got.MemoryKiB) {
			t.Errorf("memory %d", got.MemoryKiB)
		}
		if got.Crashes != 0 && (said.Starts == nil || said.Starts.Crashes == nil || *said.Starts.Crashes != got.Crashes) {
			t.Errorf("crashes %d", got.Crashes)
		}
	})
}

// TestEndOf: what an agent says of its pointer's end, and that an older one says nothing.
func TestEndOf(t *testing.T) {
	for text, want := range map[string]struct {
		ends  string
		tells bool
	}{
		`{"version":"1"}`:                                       {"0001-01-01T00:00:00Z", false},
		`{"version":"1","release_ends":null}`:                   {"0001-01-01T00:00:00Z", true},
		`{"release_ends":"2027-02-20T12:00:00Z","version":"1"}`: {"2027-02-20T12:00:00Z", true},
		`{"release_ends":"soon"}`:                               {"0001-01-01T00:00:00Z", true},
		`{`:                                                     {"0001-01-01T00:00:00Z", false},
	} {
		if ends, tells := endOf([]byte(text)); ends.Format(time.RFC3339) != want.ends || tells != want.tells {
			t.Errorf("%s: got %v, %t", text, ends, tells)
		}
	}
}
