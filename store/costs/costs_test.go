package costs_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"muster/store/costs"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func open(t testing.TB) costs.Records {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	return costs.New(s.Records())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rowsOf(t *testing.T, r costs.Records, day costs.Day) []costs.Row {
	t.Helper()
	rows, err := r.OfDay(t.Context(), day)
	must(t, err)
	return rows
}

// TestSave: the same again, and an earlier state of a row, change no sum. The price is the last one.
func TestSave(t *testing.T) {
	r := open(t)
	price := int64(1_990_000)
	full := costs.Row{NodeID: "n-1", Watched: 600, Idle: 1200, IdleCost: 300, Cost: 400, Measured: 350, Price: &price}
	early := costs.Row{NodeID: "n-1", Watched: 60, Idle: 120, IdleCost: 30, Cost: 40, Measured: 35}
	for range 2 {
		must(t, r.Save(t.Context(), 7, []costs.Row{full, {NodeID: "n-0"}}))
	}
	want := []costs.Row{{NodeID: "n-0"}, full}
	if got := rowsOf(t, r, 7); !reflect.DeepEqual(got, want) {
		t.Errorf("twice: %+v", got)
	}
	must(t, r.Save(t.Context(), 7, []costs.Row{early}))
	want[1].Price = nil
	if got := rowsOf(t, r, 7); !reflect.DeepEqual(got, want) {
		t.Errorf("after an earlier state: %+v", got)
	}
	if got := rowsOf(t, r, 8); len(got) != 0 {
		t.Errorf("of another day: %+v", got)
	}
	must(t, r.Save(t.Context(), 8, nil))
}

// TestPrune: old days go, some rows at a time.
func TestPrune(t *testing.T) {
	r := open(t)
	for day := costs.Day(1); day <= 3; day++ {
		must(t, r.Save(t.Context(), day, []costs.Row{{NodeID: "a"}, {NodeID: "b"}}))
	}
	for _, want := range []int{3, 1, 0} {
		if n, err := r.Prune(t.Context(), 3, 3); err != nil || n != want {
			t.Errorf("%d rows went, %v: want %d", n, err, want)
		}
	}
	if days, err := r.Days(t.Context(), 0, 9); err != nil || fmt.Sprint(days) != "[3]" {
		t.Errorf("left: %v, %v", days, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Prune(gone, 3, 3); err == nil {
		t.Error("no error without a database")
	}
}

func TestDay(t *testing.T) {
	for at, want := range map[string]string{
		"2026-11-22T00:00:00Z": "2026-11-22", "2026-11-22T23:59:59Z": "2026-11-22", "2026-11-23T00:30:00+02:00": "2026-11-22",
		"1969-12-31T23:59:59Z": "1969-12-31",
	} {
		moment, err := time.Parse(time.RFC3339, at)
		must(t, err)
		if got := costs.DayOf(moment).Time().Format(time.DateOnly); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

// BenchmarkMinute is one minute of 10,000 nodes, all of which have changed.
func BenchmarkMinute(b *testing.B) {
	r := open(b)
	price := int64(1_990_000)
	rows := make([]costs.Row, 10_000)
	for i := range rows {
		rows[i] = costs.Row{NodeID: fmt.Sprintf("0123456789abcdef%08x", i), Price: &price}
	}
	for b.Loop() {
		for i := range rows {
			rows[i].Watched += 60
			rows[i].Cost += 33_166
		}
		for part := range 20 {
			must(b, r.Save(b.Context(), 20_000, rows[part*500:(part+1)*500]))
		}
	}
}
