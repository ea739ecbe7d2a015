package history_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"muster/store/history"
)

// sample is one of a node with some GPUs.
func sample(at time.Time, gpus int) history.Sample {
	s := history.Sample{At: at.UnixMilli(), Interval: 30 * time.Second, Node: [history.NodeMetrics]int64{125, 21500, 120000, 6400, 30, 41}}
	for i := range gpus {
		s.GPUs = append(s.GPUs, history.GPUSample{GPU: i + 1, Values: [history.GPUMetrics]int64{990, 39233, 640, 6125, 1980}})
	}
	return s
}

// samples are of a node that runs, with values that move and some that are missing.
func samples(from time.Time, n, gpus int) []history.Sample {
	random := rand.New(rand.NewPCG(1, 2))
	var all []history.Sample
	for i := range n {
		s := sample(from.Add(time.Duration(i)*30*time.Second+time.Duration(random.IntN(3000))*time.Millisecond), gpus)
		for m := range s.Node {
			s.Node[m] += random.Int64N(100)
		}
		for g := range s.GPUs {
			for m := range s.GPUs[g].Values {
				s.GPUs[g].Values[m] += random.Int64N(200) - 100
			}
			if random.IntN(10) == 0 {
				s.GPUs[g].Values[random.IntN(history.GPUMetrics)] = history.Missing
			}
		}
		all = append(all, s)
	}
	return all
}

func noon() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

// TestBlobs: what is written is read again, missing values too, and from several frames in a row.
func TestBlobs(t *testing.T) {
	all := samples(noon(), 300, 8)
	all[7].GPUs = all[7].GPUs[:3] // some vanish
	all[9].GPUs = []history.GPUSample{}
	blob := append(history.EncodeSamples(all[:10]), history.EncodeSamples(all[10:])...)
	got, err := history.DecodeSamples(blob)
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Fatalf("%d samples, %v: want the %d that were written", len(got), err, len(all))
	}
	points := history.Group(all[:100], time.Minute)
	read, err := history.DecodePoints(history.EncodePoints(points))
	if err != nil || len(read) != len(points) {
		t.Fatalf("%d points, %v: want %d", len(read), err, len(points))
	}
	for i := range points {
		if !samePoint(&points[i], &read[i]) {
			t.Errorf("point %d is %+v, want %+v", i, read[i], points[i])
		}
	}
}

// samePoint compares two points. A GPU of which all is missing may be left out.
func samePoint(a, b *history.Point) bool {
	if a.Start != b.Start || a.Heard != b.Heard || a.Interval != b.Interval || a.Node != b.Node {
		return false
	}
	return reflect.DeepEqual(said(a), said(b))
}

func said(p *history.Point) map[int][history.GPUMetrics]history.Value {
	all := map[int][history.GPUMetrics]history.Value{}
	for _, g := range p.GPUs {
		if g.Values != [history.GPUMetrics]history.Value{} {
			all[g.GPU] = g.Values
		}
	}
	return all
}

// TestDamagedBlob: each bit counts, and what stands before the damage is read.
func TestDamagedBlob(t *testing.T) {
	first := history.EncodeSamples([]history.Sample{sample(noon(), 1)})
	second := history.EncodeSamples([]history.Sample{sample(noon().Add(time.Second), 1)})
	blob := append(append([]byte{}, first...), second...)
	for i := len(first); i < len(blob); i++ {
		damaged := append([]byte{}, blob...)
		damaged[i] ^= 1
		got, err := history.DecodeSamples(damaged)
		if len(got) != 1 || !errors.Is(err, history.ErrDamaged) {
			t.Fatalf("byte %d changed: %d samples, %v; want the first one, and that it is damaged", i, len(got), err)
		}
		if got, err := history.DecodeSamples(blob[:i]); i > len(first) && (len(got) != 1 || !errors.Is(err, history.ErrDamaged)) {
			t.Fatalf("cut off at %d: %d samples, %v", i, len(got), err)
		}
	}
	if got, err := history.DecodePoints(first); len(got) != 0 || !errors.Is(err, history.ErrDamaged) {
		t.Errorf("samples were read as points: %v, %v", got, err)
	}
}

// FuzzDecode: no bytes make the reader fail in another way than with ErrDamaged, and what it reads can be written and read again.
func FuzzDecode(f *testing.F) {
	f.Add(history.EncodeSamples(samples(noon(), 4, 2)))
	f.Add(history.EncodePoints(history.Group(samples(noon(), 40, 2), time.Minute)))
	f.Fuzz(func(t *testing.T, blob []byte) {
		read, err := history.DecodeSamples(blob)
		if err != nil && !errors.Is(err, history.ErrDamaged) {
			t.Fatalf("samples: %v", err)
		}
		if again, err := history.DecodeSamples(history.EncodeSamples(read)); err != nil || !reflect.DeepEqual(again, read) {
			t.Fatalf("samples: %v, read %+v, then %+v", err, read, again)
		}
		points, err := history.DecodePoints(blob)
		if err != nil && !errors.Is(err, history.ErrDamaged) {
			t.Fatalf("points: %v", err)
		}
		for first := 0; first < len(points); first += 60 { // a frame has no more
			part := points[first:min(first+60, len(points))]
			again, err := history.DecodePoints(history.EncodePoints(part))
			if err != nil || len(again) != len(part) {
				t.Fatalf("points: %v, read %+v, then %+v", err, part, again)
			}
			for i := range part {
				if !samePoint(&part[i], &again[i]) {
					t.Fatalf("points: read %+v, then %+v", part[i], again[i])
				}
			}
		}
	})
}

// FuzzBodies reads bodies whose frames are whole, which random bytes seldom are.
func FuzzBodies(f *testing.F) {
	f.Add([]byte{2, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, blob := range history.Framed(body) {
			_, errSamples := history.DecodeSamples(blob)
			_, errPoints := history.DecodePoints(blob)
			for _, err := range []error{errSamples, errPoints} {
				if err != nil && !errors.Is(err, history.ErrDamaged) {
					t.Fatal(err)
				}
			}
		}
	})
}
