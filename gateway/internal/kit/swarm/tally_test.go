package main

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	if got := latencies(nil).quantile(0.5); got != 0 {
		t.Errorf("of nothing: got %s", got)
	}
	for _, q := range []float64{0, 0.5, 0.99, 1} {
		if got := (latencies{7}).quantile(q); got != 7 {
			t.Errorf("of one value: quantile %v is %s", q, got)
		}
	}
	var all latencies
	for i := range 1000 {
		all = append(all, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0.001: 1, 0.5: 500, 0.9: 900, 0.99: 990, 0.9999: 1000, 1: 1000} {
		if got := all.quantile(q); got != want {
			t.Errorf("quantile %v: got %d, want %d", q, got, want)
		}
	}
}

func TestMerge(t *testing.T) {
	var a, b, c tally
	b.refuse("banned", "first")
	b.refuse("banned", "second")
	c.refuse("banned", "third")
	c.refuse("retired", "fourth")
	a.merge(&b)
	a.merge(&c)
	if a.refused["banned"] != 3 || a.refused["retired"] != 1 || a.example != "first" || b.refused["banned"] != 2 {
		t.Errorf("got %+v and %+v", a.refused, b.refused)
	}
}
