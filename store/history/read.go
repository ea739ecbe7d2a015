package history

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Samples gives the samples of a node in the rows from one number to another, in the order of time, each moment once. If the clock was
// set back, the last that was written of a moment counts. What is damaged is left out.
func (f *File) Samples(ctx context.Context, node, from, to int64) ([]Sample, error) {
	rows, err := f.Rows(ctx, Raw, node, from, to)
	if err != nil {
		return nil, err
	}
	var all []Sample
	for _, row := range rows {
		samples, err := DecodeSamples(row.Data)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return nil, err
		}
		for i := range samples {
			if Raw.Number(time.UnixMilli(samples[i].At)) == row.Start {
				all = append(all, samples[i])
			}
		}
	}
	return inOrder(all, func(s *Sample) int64 { return s.At }), nil
}

// Points gives the points of a node in the rows of Minutes or Hours from one number to another, in the order of time.
func (f *File) Points(ctx context.Context, t Tier, node, from, to int64) ([]Point, error) {
	rows, err := f.Rows(ctx, t, node, from, to)
	if err != nil {
		return nil, err
	}
	var all []Point
	for _, row := range rows {
		points, err := DecodePoints(row.Data)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return nil, err
		}
		for i := range points {
			if t.Number(time.Unix(points[i].Start, 0)) == row.Start {
				all = append(all, points[i])
			}
		}
	}
	return inOrder(all, func(p *Point) int64 { return p.Start }), nil
}

// inOrder sorts by time, and leaves the last one of each moment.
func inOrder[T any](all []T, at func(*T) int64) []T {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(at(&a), at(&b)) })
	kept := all[:0]
	for i := range all {
		if n := len(kept); n > 0 && at(&kept[n-1]) == at(&all[i]) {
			kept[n-1] = all[i]
			continue
		}
		kept = append(kept, all[i])
	}
	return kept
}

// Merge puts two lists together. If both have a point of one time, the newer list's counts.
func Merge(older, newer []Point) []Point {
	return inOrder(slices.Concat(older, newer), func(p *Point) int64 { return p.Start })
}

// Group rolls samples up that are in order, into points of such a length.
func Group(samples []Sample, length time.Duration) []Point {
	var points []Point
	for i := range samples {
		into(&points, floor(samples[i].At, length.Milliseconds())*int64(length/time.Second)).AddSample(&samples[i])
	}
	return points
}

// Fold rolls points up that are in order, into longer ones.
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
