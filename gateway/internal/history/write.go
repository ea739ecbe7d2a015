package history

import (
	"context"
	"slices"
	"time"

	"muster/store/history"
)

const portion = 500 // minutes that are written in one batch

// endAll ends the minutes of all nodes but those of now, and drops nodes from memory that are silent.
func (b *Store) endAll(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	this := history.Raw.Number(now)
	for id, n := range b.nodes {
		if n.minute.Start != this {
			b.end(n)
		}
		if silent := now.Sub(n.heard).Abs(); silent > quiet && len(n.minute.Samples) == 0 {
			delete(b.nodes, id)
		}
	}
}

// write writes the minutes that are over. If that fails they stay, and wait for the next turn.
func (b *Store) write(ctx context.Context) {
	for b.file != nil {
		part, before := b.part()
		if len(part) == 0 {
			return
		}
		minutes, err := b.named(ctx, part)
		if err == nil {
			err = b.file.Keep(ctx, minutes)
		}
		if b.note(err) != nil {
			b.report(ctx, "samples are not written", err)
			return
		}
		b.done(before + len(part))
		b.copy(part)
	}
}

// report says what failed. An outage has been said: see tell and package outage.
func (b *Store) report(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		b.Logger.Error("history: "+what, "error", err)
	}
}

// part gives the oldest minutes, and how many were before them since the start.
func (b *Store) part() (part []ended, before int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ended[:min(len(b.ended), portion)]), b.gone
}

// done drops what was written: the first minutes since the start, up to a number. Some of them may be gone to make room.
func (b *Store) done(upTo int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.gone < upTo {
		b.next()
	}
	if len(b.ended) == 0 {
		b.ended = nil // the array goes too
	}
}

// next takes the oldest minute off the list, and tells how many samples it had. The caller holds the lock.
func (b *Store) next() int {
	n := len(b.ended[0].Samples)
	b.ended = b.ended[1:]
	b.gone++
	b.waiting -= n
	return n
}

// named gives the minutes with the numbers of nodes and GPUs in them.
func (b *Store) named(ctx context.Context, part []ended) ([]history.Minute, error) {
	minutes := make([]history.Minute, 0, len(part))
	for _, e := range part {
		names, err := b.names(ctx, e.node)
		if err != nil {
			return nil, err
		}
		m := history.Minute{Node: names.Node, Start: e.Start, Samples: slices.Clone(e.Samples)}
		for i := range m.Samples {
			m.Samples[i].GPUs = b.numbered(e.node, m.Samples[i].GPUs, names)
		}
		minutes = append(minutes, m)
	}
	return minutes, nil
}

// names gives the numbers of a node and its GPUs. They are asked for where some are new, and once a day: the file forgets the names of
// nodes for which nobody asks.
func (b *Store) names(ctx context.Context, n *node) (history.Names, error) {
	now := b.Now()
	day := history.Hours.Number(now)
	b.mu.Lock()
	names := n.names
	uuids := slices.Clone(n.uuids)
	known := names.Node != 0 && n.asked == len(uuids) && n.named == day
	b.mu.Unlock()
	if known {
		return names, nil
	}
	names, err := b.file.Name(ctx, n.id, uuids, now)
	if err != nil {
		return history.Names{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n.names = names
	n.asked = len(uuids)
	n.named = day
	return names, nil
}

// numbered gives samples of GPUs with the GPUs' numbers instead of their places. A GPU without a number is left out.
func (b *Store) numbered(n *node, samples []history.GPUSample, names history.Names) []history.GPUSample {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]history.GPUSample, 0, len(samples))
	for _, s := range samples {
		if number := names.GPUs[n.uuids[s.GPU]]; number > 0 {
			out = append(out, history.GPUSample{GPU: number, Values: s.Values})
		}
	}
	return out
}
