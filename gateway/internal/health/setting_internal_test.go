package health

import (
	"testing"
	"time"

	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/kit"
	"muster/store"
	records "muster/store/health"
)

// TestSetsAtOnce: who changes a setting reads what is on record after all who read before have kept it. So of two changes at once, the
// later one is in what is kept.
func TestSetsAtOnce(t *testing.T) {
	s := kit.Store(t, nil)
	d, err := Open(t.Context(), Config{Records: records.New(s.Records())})
	if err != nil {
		t.Fatal(err)
	}
	first := records.Setting{Rule: condition.GPUHot, Selector: "rack=1", Off: true}
	second := records.Setting{Rule: condition.GPUHot, Selector: "rack=2", Off: true, SetAt: time.Now()}
	d.reading.Lock() // somebody else reads
	ended := make(chan error, 1)
	go func() { _, err := d.Set(t.Context(), first, store.Actor{}); ended <- err }()
	for rows := 0; rows == 0; { // until the first is on record
		kept, err := d.Records.Settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows = len(kept)
	}
	if err := d.Records.Set(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	d.reading.Unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if b := *d.settings.Load(); len(b[condition.GPUHot]) != 2 {
		t.Errorf("%d of 2 settings count", len(b[condition.GPUHot]))
	}
}
