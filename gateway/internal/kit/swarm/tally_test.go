package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	last := -1
	for _, v := range []uint64{0, 1, 63, 64, 127, 128, 129, 130, 255, 256, 1000, 1_000_000, 123_456_789, 1 << 40, 1<<63 - 1} {
		i := bucket(v)
		if i < last {
			t.Errorf("bucket(%d) = %d, below %d of a smaller value", v, i, last)
		}
		last = i
		high := uint64(highest(i))
		if high < v || bucket(high) != i || float64(high-v) > float64(v)/64 {
			t.Errorf("bucket(%d) = %d, whose highest value is %d", v, i, high)
		}
		if v < 1<<62 && bucket(high+1) != i+1 {
			t.Errorf("the value after bucket %d is in bucket %d", i, bucket(high+1))
		}
	}
}

func TestQuantile(t *testing.T) {
	var h histogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("of nothing: got %s", got)
	}
	h.add(7 * time.Millisecond)
	for _, q := range []float64{0, 0.5, 0.99, 1} {
		if got := h.quantile(q); got != 7*time.Millisecond {
			t.Errorf("of one value: quantile %v is %s", q, got)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	h = histogram{}
	var halves [2]histogram
	all := make([]time.Duration, 10_000)
	for i := range all {
		all[i] = time.Duration(random.ExpFloat64() * float64(time.Millisecond))
		h.add(all[i])
		halves[i%2].add(all[i])
	}
	slices.Sort(all)
	halves[0].merge(&halves[1])
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.9999, 1} {
		want := all[max(int(q*float64(len(all)))-1, 0)]
		got := h.quantile(q)
		if got < want || float64(got-want) > float64(want)/64 {
			t.Errorf("quantile %v: got %s, want %s and at most a sixty-fourth more", q, got, want)
		}
		if merged := halves[0].quantile(q); merged != got {
			t.Errorf("quantile %v: merged halves give %s, the whole %s", q, merged, got)
		}
	}
	if h.max != all[len(all)-1] || h.total != uint64(len(all)) {
		t.Errorf("max %s, total %d", h.max, h.total)
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
