package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store/history"
)

// buckets gives one value for each step, null if no sample said it. A step is at least two intervals long, so that a node which is
// heard in time has a sample in each.
func (r *reader) buckets(ctx context.Context, tier history.Tier, step time.Duration) (time.Duration, error) {
	unit := tier.Row() / 60 // a minute
	if tier == history.Hours {
		unit = time.Hour
	}
	step = roundUp(step, unit)
	for {
		interval, err := r.gather(ctx, tier, step)
		if err != nil {
			return 0, err
		}
		if 2*interval <= step {
			break
		}
		step = roundUp(2*interval, unit)
		clear(r.tracks)
	}
	first := r.first(step)
	for _, t := range r.tracks {
		t.points = make([]api.SeriesPoint, len(t.values))
		for i, v := range t.values {
			t.points[i] = point(first.Add(time.Duration(i)*step), r.told(v))
		}
	}
	return step, nil
}

// first is where the first step of an answer begins.
func (r *reader) first(step time.Duration) time.Time {
	seconds := int64(step / time.Second)
	return time.Unix(floor(r.q.Since.Unix(), seconds)*seconds, 0).UTC()
}

func floor(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// gather adds the points up by steps, a day at a time, and gives the longest interval.
func (r *reader) gather(ctx context.Context, tier history.Tier, step time.Duration) (time.Duration, error) {
	first := r.first(step)
	count := int((r.q.Until.Sub(first) + step - 1) / step)
	if err := r.bounded(count); err != nil {
		return 0, err
	}
	if !r.metric.PerGPU {
		r.track(0, count)
	}
	from, err := r.begin(ctx, tier)
	if err != nil {
		return 0, err
	}
	if !from.After(r.q.Since) {
		from = first
	}
	var interval time.Duration
	for day := history.Hours.Number(from); day <= history.Hours.Number(r.q.Until); day++ {
		points, err := r.day(ctx, tier, day)
		if err != nil {
			return 0, err
		}
		for i := range points {
			at := time.Unix(points[i].Start, 0)
			if at.Before(first) || !at.Before(r.q.Until) {
				continue
			}
			interval = max(interval, points[i].Interval)
			r.add(&points[i], int(at.Sub(first)/step), count)
		}
	}
	return interval, nil
}

// bounded refuses an answer that would take too much memory: a node may have had many GPUs.
func (r *reader) bounded(count int) error {
	if !r.metric.PerGPU || count*len(r.names.GPUs) <= mostInAll {
		return nil
	}
	return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("for %d GPUs these are more than %d points", len(r.names.GPUs), mostInAll),
		"ask for a larger step or a shorter time")
}

func (r *reader) add(p *history.Point, at, count int) {
	if !r.metric.PerGPU {
		r.track(0, count).values[at].Add(r.metric.of(p, nil))
		return
	}
	for i := range p.GPUs {
		r.track(p.GPUs[i].GPU, count).values[at].Add(r.metric.of(p, &p.GPUs[i]))
	}
}

// day gives the points of a day: those that are rolled up, and those of hours that are not yet.
func (r *reader) day(ctx context.Context, tier history.Tier, day int64) ([]history.Point, error) {
	first := day * 24
	last := first + 23
	rows := [2]int64{first, last}
	if tier == history.Hours {
		rows = [2]int64{day, day}
	}
	points, err := r.file.Points(ctx, tier, r.names.Node, rows[0], rows[1])
	if err != nil {
		return nil, err
	}
	open, err := r.open(ctx, first, last)
	if err != nil {
		return nil, err
	}
	for _, hour := range open {
		fresh, err := r.hour(ctx, tier, hour)
		if err != nil {
			return nil, err
		}
		points = history.Merge(points, fresh)
	}
	return points, nil
}

// open are the hours of a time that have samples which are not rolled up.
func (r *reader) open(ctx context.Context, first, last int64) ([]int64, error) {
	hours, err := r.file.DueOf(ctx, r.names.Node, first, last)
	for i := range r.wait {
		hour := history.Minutes.Number(time.UnixMilli(r.wait[i].At))
		if hour >= first && hour <= last && !slices.Contains(hours, hour) {
			hours = append(hours, hour)
		}
	}
	return hours, err
}

// hour gives the points of an hour as its roll-up will have them.
func (r *reader) hour(ctx context.Context, tier history.Tier, hour int64) ([]history.Point, error) {
	kept, err := r.file.Points(ctx, history.Minutes, r.names.Node, hour, hour)
	if err != nil {
		return nil, err
	}
	samples, err := r.file.Samples(ctx, r.names.Node, hour*60, hour*60+59)
	if err != nil {
		return nil, err
	}
	wait := slices.DeleteFunc(slices.Clone(r.wait), func(s history.Sample) bool {
		return history.Minutes.Number(time.UnixMilli(s.At)) != hour
	})
	points := history.Merge(kept, history.Group(together(samples, wait), time.Minute))
	if tier == history.Hours {
		points = history.Fold(points, time.Hour)
	}
	return points, nil
}
