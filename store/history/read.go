package history

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Samples returns the samples of a node in the rows from one number to another, in the order of time, each moment once. If the clock was
// set back, the last written sample of a moment counts. Damaged samples are left out.
func (f *File) Samples(ctx context.Context, node, from, to int64) ([]Sample, error) {
	return readRows(ctx, f, Raw, node, from, to, DecodeSamples, func(s *Sample) time.Time { return time.UnixMilli(s.At) })
}

// Points returns the points of a node in the rows of Minutes or Hours from one number to another, in the order of time.
func (f *File) Points(ctx context.Context, t Tier, node, from, to int64) ([]Point, error) {
	return readRows(ctx, f, t, node, from, to, DecodePoints, start)
}

func start(p *Point) time.Time { return time.Unix(p.Start, 0) }

func readRows[T any](ctx context.Context, f *File, t Tier, node, from, to int64, decode func([]byte) ([]T, error),
	at func(*T) time.Time) ([]T, error) {
	rows, err := f.Rows(ctx, t, node, from, to)
	if err != nil {
		return nil, err
	}
	var all []T
	for _, row := range rows {
		some, err := decode(row.Data)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return nil, err
		}
		for i := range some {
			if t.Number(at(&some[i])) == row.Start {
				all = append(all, some[i])
			}
		}
	}
	return inOrder(all, at), nil
}

// inOrder sorts by time, and leaves the last one of each moment.
func inOrder[T any](all []T, at func(*T) time.Time) []T {
	slices.SortStableFunc(all, func(a, b T) int { return at(&a).Compare(at(&b)) })
	kept := all[:0]
	for i := range all {
		if n := len(kept); n > 0 && at(&kept[n-1]).Equal(at(&all[i])) {
			kept[n-1] = all[i]
			continue
		}
		kept = append(kept, all[i])
	}
	return kept
}

// Merge puts two lists together. If both have a point of one time, the point of the newer list counts.
func Merge(older, newer []Point) []Point {
	return inOrder(slices.Concat(older, newer), start)
}

// Group rolls samples up into points of this length. The samples must be in order.
func Group(samples []Sample, length time.Duration) []Point {
	var points []Point
	for i := range samples {
		into(&points, floor(samples[i].At, length.Milliseconds())*int64(length/time.Second)).AddSample(&samples[i])
	}
	return points
}

// Fold rolls points up into longer ones. The points must be in order.
func Fold(points []Point, length time.Duration) []Point {
	var folded []Point
	for i := range points {
		seconds := int64(length / time.Second)
		into(&folded, floor(points[i].Start, seconds)*seconds).Add(&points[i])
	}
	return folded
}

// into gives the last point where it begins at that time, else a new one behind it.
func into(points *[]Point, start int64) *Point {
	if n := len(*points); n == 0 || (*points)[n-1].Start != start {
		*points = append(*points, Point{Start: start})
	}
	return &(*points)[len(*points)-1]
}
