package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"muster/gateway/api"
	"muster/store/history"
)

// reader answers one query.
type reader struct {
	store  *Store
	file   *history.File
	node   string
	q      api.SeriesQuery
	metric Metric
	names  history.Names
	wait   []history.Sample // that are not written yet, with the GPUs' numbers
	tracks map[int]*track   // by the GPU's number; 0: the node
}

// track is what a reader gathers of one GPU: the samples' own points, or a value for each step.
type track struct {
	points []api.SeriesPoint
	values []history.Value
}

func (r *reader) read(ctx context.Context) (api.Series, error) {
	var err error
	if r.names, err = r.file.Named(ctx, r.node); err != nil {
		return api.Series{}, err
	}
	r.wait = r.store.pending(r.node, &r.names)
	r.tracks = map[int]*track{}
	step, raw := choose(r.q)
	tier, err := r.tier(ctx, step, raw)
	if err != nil {
		return api.Series{}, err
	}
	if tier == history.Raw {
		step, err = r.samples(ctx)
	} else {
		step, err = r.buckets(ctx, tier, step)
	}
	return api.Series{Metric: r.metric.Name, Unit: r.metric.Unit, StepSeconds: int64(step / time.Second), Series: r.sorted()}, err
}

// tier is the finest one that the step needs. If it does not reach back as far as the query does, and the next one does, that is used.
func (r *reader) tier(ctx context.Context, step time.Duration, raw bool) (history.Tier, error) {
	tier := history.Minutes
	switch {
	case raw:
		tier = history.Raw
	case step%time.Hour == 0:
		tier = history.Hours
	}
	oldest, err := r.file.Oldest(ctx, tier)
	for err == nil && tier < history.Hours && (oldest.IsZero() || oldest.After(r.q.Since)) {
		var next time.Time
		next, err = r.file.Oldest(ctx, tier+1)
		if next.IsZero() || !oldest.IsZero() && !next.Before(oldest.Truncate((tier+1).Row())) {
			break
		}
		tier++
		oldest = next
	}
	return tier, err
}

// track gives what is gathered of a GPU, and begins it if there is nothing.
func (r *reader) track(gpu, steps int) *track {
	if r.tracks[gpu] == nil {
		r.tracks[gpu] = &track{values: make([]history.Value, steps)}
	}
	return r.tracks[gpu]
}

// sorted gives the tracks in the order of the GPUs' numbers.
func (r *reader) sorted() []api.SeriesTrack {
	uuids := map[int]string{}
	for uuid, number := range r.names.GPUs {
		uuids[number] = uuid
	}
	tracks := []api.SeriesTrack{}
	for _, number := range slices.Sorted(maps.Keys(r.tracks)) {
		tracks = append(tracks, api.SeriesTrack{GPU: uuids[number], Points: append([]api.SeriesPoint{}, r.tracks[number].points...)})
	}
	return tracks
}

// samples gives the samples themselves. If nothing was heard for more than two intervals, a point without a value stands between.
func (r *reader) samples(ctx context.Context) (time.Duration, error) {
	from, err := r.begin(ctx, history.Raw)
	if err != nil {
		return 0, err
	}
	kept, err := r.file.Samples(ctx, r.names.Node, history.Raw.Number(from), history.Raw.Number(r.q.Until))
	if err != nil {
		return 0, err
	}
	all := together(kept, r.wait)
	all = slices.DeleteFunc(all, func(s history.Sample) bool {
		at := time.UnixMilli(s.At)
		return at.Before(r.q.Since) || !at.Before(r.q.Until)
	})
	most := mostPoints
	if r.metric.PerGPU {
		most = min(most, mostInAll/max(len(r.names.GPUs), 1))
	}
	if len(all) > most {
		all = all[len(all)-most:]
	}
	step := r.markGPUs(all)
	for i := range all {
		if i > 0 {
			r.gap(all[i-1], time.UnixMilli(all[i].At))
		}
		r.sample(&all[i])
	}
	if n := len(all); n > 0 {
		r.gap(all[n-1], r.q.Until)
	}
	return step, nil
}

// markGPUs begins the tracks of all that the samples speak of, and gives the last interval.
func (r *reader) markGPUs(all []history.Sample) time.Duration {
	step := 30 * time.Second
	if !r.metric.PerGPU {
		r.track(0, 0)
	}
	for i := range all {
		step = cmp.Or(all[i].Interval, step)
		for _, g := range all[i].GPUs {
			if r.metric.PerGPU {
				r.track(g.GPU, 0)
			}
		}
	}
	return step
}

// gap puts a point without a value behind a sample where the next moment is more than two intervals away.
func (r *reader) gap(last history.Sample, next time.Time) {
	at := time.UnixMilli(last.At)
	interval := max(last.Interval, time.Second)
	if next.Sub(at) <= 2*interval+interval/4 { // heartbeats come a tenth early or late
		return
	}
	for _, t := range r.tracks {
		t.points = append(t.points, point(at.Add(interval), nil))
	}
}

func (r *reader) sample(s *history.Sample) {
	var p history.Point
	p.AddSample(s)
	at := time.UnixMilli(s.At)
	for gpu, t := range r.tracks {
		t.points = append(t.points, point(at, r.told(r.value(&p, gpu))))
	}
}

// value is the metric's value in a point, missing where the point knows nothing of the GPU.
func (r *reader) value(p *history.Point, gpu int) history.Value {
	if !r.metric.PerGPU {
		return r.metric.of(p, nil)
	}
	for i := range p.GPUs {
		if p.GPUs[i].GPU == gpu {
			return r.metric.of(p, &p.GPUs[i])
		}
	}
	return history.Value{}
}

// told is a value in the metric's unit, as the query wants it; nil: missing.
func (r *reader) told(v history.Value) *float64 {
	if v.Count == 0 {
		return nil
	}
	n := v.Mean
	switch r.q.Value {
	case Least:
		n = v.Least
	case Most:
		n = v.Most
	}
	return new(float64(n) / r.metric.parts)
}

// begin is where reading begins: nothing is older than the oldest row, of whichever node. Samples that are not rolled up count too.
func (r *reader) begin(ctx context.Context, t history.Tier) (time.Time, error) {
	oldest, err := r.file.Oldest(ctx, t)
	if err != nil {
		return time.Time{}, err
	}
	raw, err := r.file.Oldest(ctx, history.Raw)
	if oldest.IsZero() || !raw.IsZero() && raw.Before(oldest) {
		oldest = raw
	}
	if oldest.IsZero() { // nothing is written so far
		oldest = r.q.Until.Add(-usualSpan)
	}
	if oldest.Before(r.q.Since) {
		oldest = r.q.Since
	}
	return oldest, err
}

// together are samples that are written and samples that wait, in order.
func together(kept, wait []history.Sample) []history.Sample {
	all := slices.Concat(kept, wait)
	slices.SortStableFunc(all, func(a, b history.Sample) int { return cmp.Compare(a.At, b.At) })
	return slices.CompactFunc(all, func(a, b history.Sample) bool { return a.At == b.At })
}

// pending are a node's samples that are not written yet. It gives numbers to GPUs that have none so far, for this answer alone.
func (b *Store) pending(id string, names *history.Names) []history.Sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.nodes[id]
	if n == nil {
		return nil
	}
	var all []history.Sample
	for _, e := range b.ended {
		if e.node == n {
			all = append(all, e.Samples...)
		}
	}
	all = append(slices.Clone(all), n.minute.Samples...)
	for i := range all {
		gpus := make([]history.GPUSample, 0, len(all[i].GPUs))
		for _, g := range all[i].GPUs {
			uuid := n.uuids[g.GPU]
			if names.GPUs[uuid] == 0 {
				names.GPUs[uuid] = unnamed + g.GPU
			}
			gpus = append(gpus, history.GPUSample{GPU: names.GPUs[uuid], Values: g.Values})
		}
		all[i].GPUs = gpus
	}
	return all
}

// unnamed is above all numbers that GPUs have in the file.
const unnamed = 1 << 16
