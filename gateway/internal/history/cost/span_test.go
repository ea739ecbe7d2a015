package cost_test

import (
	"testing"
	"time"

	"muster/store/costs"
)

// TestSpan: however long a time is asked for, no more days are read than are kept; days to come are none.
func TestSpan(t *testing.T) {
	h := newHouse(t)
	today := costs.DayOf(h.now)
	for _, ago := range []costs.Day{0, 366, 367, 5000} {
		h.must(h.records.Save(t.Context(), today-ago, []costs.Row{{NodeID: "a", Watched: 1}}))
	}
	sums, err := h.Sums(t.Context(), time.Time{}, h.now.AddDate(100, 0, 0), func(string) bool { return true })
	h.must(err)
	if sums["a"] == nil || sums["a"].Days != 2 {
		t.Errorf("got %+v, want today and the oldest day that is kept", sums["a"])
	}
}
