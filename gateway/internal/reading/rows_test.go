package reading_test

import (
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
)

func TestHealthOfRows(t *testing.T) {
	found, shown := reading.Health(`{"gpus":[{"uuid":"GPU-1","health":["hot","ecc\n "]},` +
		`{"index":1,"health":["lost"]},{"index":2,"uuid":"GPU-3"}]}`)
	if len(found) != 2 || found["GPU-1"] != "hot, ecc" || found["gpu 1"] != "lost" {
		t.Errorf("found %v", found)
	}
	if !shown["GPU-1"] || !shown["gpu 1"] || !shown["GPU-3"] || shown["GPU-2"] {
		t.Errorf("shown %v", shown)
	}
}

// FuzzRows: whatever a node sends, there are no more rows than a node may have, and every text fits a log line.
func FuzzRows(f *testing.F) {
	for _, text := range []string{"", "{}", `{"gpus":null}`, `{"gpus":[{"uuid":"\u0000x","health":["a b"]}]}`, `{"gpus":[{}]} x`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, hardware string) {
		found, shown := reading.Health(hardware)
		if rows := reading.GPUs(hardware); len(rows) > wire.MaxGPUs || len(found) > wire.MaxGPUs {
			t.Errorf("%d rows, %d of them ill", len(rows), len(found))
		}
		for gpu, text := range found {
			if !shown[gpu] || len(text) > wire.MaxHealthDetail || reading.Plain(text) != text {
				t.Errorf("%q: %q, shown %v", gpu, text, shown[gpu])
			}
		}
	})
}
