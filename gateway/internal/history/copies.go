package history

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"muster/store/history"
)

// Minute is a node's minute on its way to another gateway, which has its own numbers for nodes and GPUs.
type Minute struct {
	Node    string   `json:"node"`
	GPUs    []string `json:"gpus"` // UUIDs; the samples name GPUs by their places here
	Start   int64    `json:"start"`
	Samples []byte   `json:"samples"` // as history.EncodeSamples writes them
}

const (
	mostCopies = 64              // portions that wait for the other gateways
	lastCopies = 5 * time.Second // for all of them, at the end
	copiesTold = time.Minute     // between two lines in the log that say that some are missing
)

// copies are minutes on their way to the other gateways. Nothing waits for them: what does not arrive is missing there.
type copies struct {
	waiting chan []Minute
	lost    atomic.Int64 // minutes that had no room
	missing int64        // minutes that the log was not told of; only the goroutine that gives them uses it
	told    time.Time    // and this
}

// copy has minutes that were written go to the other gateways. If too many wait, the oldest do not.
func (b *Store) copy(part []ended) {
	if b.Copy == nil {
		return
	}
	minutes := make([]Minute, 0, len(part))
	b.mu.Lock()
	for _, e := range part {
		minutes = append(minutes, Minute{Node: e.node.id, GPUs: e.node.uuids, Start: e.Start, Samples: history.EncodeSamples(e.Samples)})
	}
	b.mu.Unlock()
	for {
		select {
		case b.copies.waiting <- minutes:
			return
		default:
		}
		select {
		case oldest := <-b.copies.waiting:
			b.copies.lost.Add(int64(len(oldest)))
		default:
		}
	}
}

// giveCopies gives the other gateways what waits for them, until nothing more comes.
func (b *Store) giveCopies(ctx context.Context) {
	for minutes := range b.copies.waiting {
		b.give(ctx, minutes)
	}
}

func (b *Store) give(ctx context.Context, minutes []Minute) {
	err := b.Copy(ctx, minutes)
	b.copies.missing += b.copies.lost.Swap(0)
	if err != nil {
		b.copies.missing += int64(len(minutes))
	}
	if now := b.Now(); b.copies.missing > 0 && now.Sub(b.copies.told).Abs() >= copiesTold {
		b.Logger.Warn("history: other gateways do not have some minutes of nodes", "minutes", b.copies.missing, "error", err)
		b.copies.told = now
		b.copies.missing = 0
	}
}

// endCopies gives what waits at the end, for a short time: another gateway waits to take over.
func (b *Store) endCopies(stop context.CancelFunc, given <-chan struct{}) {
	close(b.copies.waiting)
	defer time.AfterFunc(lastCopies, stop).Stop()
	<-given
	stop()
}

// Put keeps minutes that another gateway has written. A minute may come twice: only one sample counts for each moment.
func (b *Store) Put(minutes []Minute) error {
	all := make([][]history.Sample, len(minutes))
	for i := range minutes {
		var err error
		if all[i], err = minutes[i].decode(); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, samples := range all {
		n := b.node(minutes[i].Node, b.Now())
		for s := range samples {
			samples[s].GPUs = n.placed(samples[s].GPUs, minutes[i].GPUs)
		}
		b.ended = append(b.ended, ended{n, history.Minute{Start: minutes[i].Start, Samples: samples}})
		b.waiting += len(samples)
	}
	b.makeRoom()
	return nil
}

// decode reads the samples, and refuses those that are not of this minute.
func (m *Minute) decode() ([]history.Sample, error) {
	samples, err := history.DecodeSamples(m.Samples)
	switch {
	case err != nil:
		return nil, fmt.Errorf("a minute of the node %.80q: %w", m.Node, err)
	case len(samples) == 0 || m.Node == "" || len(m.GPUs) > mostGPUs:
		return nil, fmt.Errorf("a minute of the node %.80q has %d samples of %d GPUs", m.Node, len(samples), len(m.GPUs))
	}
	for i := range samples {
		if history.Raw.Number(time.UnixMilli(samples[i].At)) != m.Start {
			return nil, fmt.Errorf("a sample of the node %.80q is not of the minute %d", m.Node, m.Start)
		}
		for _, g := range samples[i].GPUs {
			if g.GPU >= len(m.GPUs) {
				return nil, fmt.Errorf("a sample of the node %.80q names the GPU %d of %d", m.Node, g.GPU, len(m.GPUs))
			}
		}
	}
	return samples, nil
}

// placed gives samples of GPUs with the places of this node in place of those in a list. The caller holds the lock.
func (n *node) placed(samples []history.GPUSample, uuids []string) []history.GPUSample {
	out := make([]history.GPUSample, 0, len(samples))
	for _, s := range samples {
		if at := n.place(uuids[s.GPU]); at >= 0 {
			out = append(out, history.GPUSample{GPU: at, Values: s.Values})
		}
	}
	return out
}
