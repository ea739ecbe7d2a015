package task

import (
	"context"
	"errors"
	"time"

	"muster/agent/wire"
	"muster/store"
)

const (
	piecesAtOnce = 8               // read from the database at a time
	followAgain  = 5 * time.Second // between two looks at a task that nobody rings for: its node may have been retired
)

// Log returns the beginning and the end of what a task has written so far.
func (d *Service) Log(ctx context.Context, t store.Task) (wire.TaskLog, error) {
	log := wire.TaskLog{Truncated: t.Truncated}
	err := d.pieces(ctx, t.ID, "", 0, func(offset int64, data []byte) error {
		add(&log, offset, data)
		return nil
	})
	log.Bytes = max(log.Bytes, t.Bytes)
	return log, err
}

// add puts a piece behind a log. Log.Bytes is where the log ends.
func add(log *wire.TaskLog, offset int64, data []byte) {
	if offset == int64(len(log.Head)) && len(log.Tail) == 0 {
		n := min(len(data), wire.MaxTaskHead-len(log.Head))
		log.Head = append(log.Head, data[:n]...)
		log.Bytes += int64(n)
		offset += int64(n)
		data = data[n:]
	}
	if len(data) == 0 {
		return
	}
	if offset > log.Bytes {
		log.Truncated = true
		log.Tail = nil
	}
	log.Tail = append(log.Tail, data...)
	log.Bytes = offset + int64(len(data))
	if surplus := len(log.Tail) - wire.MaxTaskTail; surplus > 0 {
		log.Truncated = true
		log.Tail = log.Tail[surplus:]
	}
}

// pieces calls each with all that is on record of a task's file from an offset on.
func (d *Service) pieces(ctx context.Context, id, file string, from int64, each func(offset int64, data []byte) error) error {
	for {
		pieces, err := d.Store.TaskPieces(ctx, id, file, from, piecesAtOnce)
		if err != nil {
			return err
		}
		for _, p := range pieces {
			if known := from - p.Offset; known > 0 {
				p.Data = p.Data[known:]
				p.Offset = from
			}
			if err := each(p.Offset, p.Data); err != nil {
				return err
			}
			from = p.Offset + int64(len(p.Data))
		}
		if len(pieces) < piecesAtOnce {
			return nil
		}
	}
}

// Follow calls each with what the task has written from an offset on, in order, until the task has ended or each returns an error. If an
// offset is higher than expected, the bytes between were not kept.
func (d *Service) Follow(ctx context.Context, t store.Task, from int64, each func(offset int64, data []byte) error) error {
	bell := d.listen(t.ID)
	defer d.unlisten(t.ID, bell)
	from = max(from, 0)
	onward := func(offset int64, data []byte) error {
		from = offset + int64(len(data))
		return each(offset, data)
	}
	for {
		work, err := d.Store.TaskWork(ctx, t.ID, "")
		if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.pieces(ctx, t.ID, "", from, onward); err != nil || wire.TaskEnded(work.Status) {
			return err
		}
		select {
		case <-bell:
		case <-time.After(followAgain):
		case <-ctx.Done():
			return ctx.Err()
		case <-d.stopping:
			return wire.Refuse(wire.CodeUnavailable, "the gateway stops", "ask again, from where this ends")
		}
	}
}

// Archive calls each with the parts of the file that an ended task has made, in order.
func (d *Service) Archive(ctx context.Context, t store.Task, each func(data []byte) error) error {
	if t.Archive == nil {
		return wire.Refuse(wire.CodeNotFound, "task "+t.ID+" has made no file", "muster task show "+t.ID)
	}
	return d.pieces(ctx, t.ID, wire.TaskArchive, 0, func(_ int64, data []byte) error { return each(data) })
}

// listen gives a bell that rings when a task has written something or has ended.
func (d *Service) listen(id string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	bell := make(chan struct{}, 1)
	if d.followers[id] == nil {
		d.followers[id] = map[chan struct{}]bool{}
	}
	d.followers[id][bell] = true
	return bell
}

func (d *Service) unlisten(id string, bell chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.followers[id], bell)
	if len(d.followers[id]) == 0 {
		delete(d.followers, id)
	}
}

func (d *Service) ringFollowers(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for bell := range d.followers[id] {
		ring(bell)
	}
}
