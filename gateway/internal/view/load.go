package view

import (
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
	p.loadAll(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = ctx.Err() == nil
}

func (p *Fleet) loadAll(ctx context.Context) {
	cursor := p.load(ctx, "")
	for cursor != "" && ctx.Err() == nil {
		cursor = p.load(ctx, cursor)
	}
}

// follow reads nodes again: those that somebody named, and one page after the other.
func (p *Fleet) follow(ctx context.Context) {
	cursor := ""
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			cursor = p.load(ctx, cursor)
		case <-p.wake:
			p.readAgain(ctx)
		case <-ctx.Done():
		}
	}
}

// load reads one page, and returns the cursor of the next one; empty: it was the last. It tries until it succeeds.
func (p *Fleet) load(ctx context.Context, cursor string) (next string) {
	p.try(ctx, func() (err error) {
		next, err = p.readPage(ctx, cursor)
		return err
	})
	return next
}

// try reads until it succeeds, or ctx ends.
func (p *Fleet) try(ctx context.Context, read func() error) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := read()
		if err == nil {
			return
		}
		p.failed(ctx, failures, err)
	}
}

func (p *Fleet) readPage(ctx context.Context, cursor string) (next string, err error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	rows, next, _, err := p.Store.Nodes(ctx, store.NodeQuery{Retired: true, Limit: pageSize, Cursor: cursor})
	if err == nil {
		p.putAll(rows)
	}
	return next, err
}

// failed says once that the database cannot be read, and waits a little.
func (p *Fleet) failed(ctx context.Context, failures int, err error) {
	if failures == 0 && ctx.Err() == nil {
		p.Logger.Error("the view of the fleet is old: the database cannot be read", "error", err)
	}
	select {
	case <-time.After(second):
	case <-ctx.Done():
	}
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

// readAgain reads the nodes that somebody named, or all of them page by page. What is named meanwhile is read after that.
func (p *Fleet) readAgain(ctx context.Context) {
	p.mu.Lock()
	named := p.again
	all := p.allAgain
	p.again = map[string]bool{}
	p.allAgain = false
	p.mu.Unlock()
	if all {
		p.loadAll(ctx)
		return
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(named)), store.Piece) {
		p.try(ctx, func() error { return p.readNow(ctx, ids...) })
	}
}

// readNow reads nodes, and shows them at once: somebody may wait for them.
func (p *Fleet) readNow(ctx context.Context, ids ...string) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	rows, err := p.Store.NodesByID(ctx, ids)
	if err == nil {
		p.putAll(rows)
	}
	return err
}
