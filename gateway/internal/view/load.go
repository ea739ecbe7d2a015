package view

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"muster/store"
)

const (
	second     = time.Second      // between two looks at what changes with time alone, and before a failed read is tried again
	roundEvery = 10 * time.Second // between two pages of the round
	pageSize   = 1000
)

// Run loads all nodes and keeps the view until ctx ends.
func (p *Fleet) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { p.watchTime(ctx) })
	p.Load(ctx)
	p.follow(ctx)
	group.Wait()
	return nil
}

func (p *Fleet) watchTime(ctx context.Context) {
	ticker := time.NewTicker(second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.tick()
		case <-ctx.Done():
			return
		}
	}
}

// Load loads all nodes, page by page. Then the view is ready.
func (p *Fleet) Load(ctx context.Context) {
	p.mu.Lock()
	p.allAgain = true
	p.mu.Unlock()
	p.try(ctx, p.settle)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = ctx.Err() == nil
}

// follow reads nodes again: those that somebody named, and one page after the other.
func (p *Fleet) follow(ctx context.Context) {
	cursor := ""
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			p.try(ctx, func(ctx context.Context) (err error) {
				cursor, err = p.readPage(ctx, cursor)
				return err
			})
		case <-p.wake:
			p.try(ctx, p.settle)
		case <-ctx.Done():
		}
	}
}

// try reads until it succeeds, or ctx ends. The log has its first failure.
func (p *Fleet) try(ctx context.Context, read func(context.Context) error) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := p.alone(ctx, read)
		if err == nil {
			return
		}
		if failures == 0 && ctx.Err() == nil {
			p.Logger.Error("the view of the fleet is old: the database cannot be read", "error", err)
		}
		_ = wait(ctx, second)
	}
}

func (p *Fleet) readPage(ctx context.Context, cursor string) (next string, err error) {
	rows, next, _, err := p.Store.Nodes(ctx, store.NodeQuery{Retired: true, Limit: pageSize, Cursor: cursor})
	if err == nil {
		p.putAll(rows)
	}
	return next, err
}

func (p *Fleet) putAll(rows []store.Node) {
	ref := p.Ref()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range rows {
		p.put(read(&rows[i], p.nodes[rows[i].ID], ref))
	}
	p.tell()
}

// Settle reads the nodes that somebody named, so that the view shows what has happened to them; the first call reads all nodes. Nodes that
// are named meanwhile are read after that. After an error they stay named.
func (p *Fleet) Settle(ctx context.Context) error { return p.alone(ctx, p.settle) }

func (p *Fleet) settle(ctx context.Context) error {
	p.mu.Lock()
	named, all := p.again, p.allAgain
	p.again, p.allAgain = map[string]bool{}, false
	p.mu.Unlock()
	var err error
	if all {
		err = p.readAll(ctx)
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(named)), store.Piece) {
		err = cmp.Or(err, p.read(ctx, ids))
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		maps.Copy(p.again, named)
		p.allAgain = p.allAgain || all
	}
	return err
}

// alone reads while nobody else does, so that the newest state of a node comes last.
func (p *Fleet) alone(ctx context.Context, read func(context.Context) error) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	return read(ctx)
}

// readAll reads all nodes, page by page.
func (p *Fleet) readAll(ctx context.Context) error {
	cursor, err := p.readPage(ctx, "")
	for cursor != "" && err == nil {
		cursor, err = p.readPage(ctx, cursor)
	}
	return err
}

func (p *Fleet) read(ctx context.Context, ids []string) error {
	rows, err := p.Store.NodesByID(ctx, ids)
	if err == nil {
		p.putAll(rows)
	}
	return err
}
