// Package cost sums what nodes cost, and for how long their GPUs are idle, day by day.
//
// It looks at the fleet every few seconds, and adds the time that has passed since the look before. So only time counts in
// which the gateway was there to see. Time is taken from a clock that nobody sets, and only the day comes from the machine's clock. A row
// of the database has the sums of its day and only grows: nothing counts twice, whatever is repeated.
package cost

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store/costs"
)

const (
	lookEvery  = 10 * time.Second
	longest    = 3 * lookEvery // that counts between two looks: beyond that nobody looked
	writeEvery = 6             // looks
	pruneEvery = 60            // writes
	portion    = 500           // rows of one write: others must not wait long for the writer
	pruned     = 2000          // rows that go in one write

	keptDays = 366

	millionths = 1e6 // of the currency, in which the database counts
)

// Config says what a Service works with.
type Config struct {
	Records costs.Records
	Ready   func() bool           // all nodes are known
	Nodes   func() []*api.NodeRow // those that are not retired
	Now     func() time.Time      // nil: time.Now
	Logger  *slog.Logger          // nil: nothing is logged
}

// Service is safe for concurrent use. Look and Write are for one goroutine.
type Service struct {
	Config
	last    time.Time // of the last look
	writes  int
	failing string // what failed, as the log said it last

	mu    sync.Mutex
	ready bool // the day's rows have been read
	day   costs.Day
	nodes map[string]*sums
}

// sums are those of one node and one day.
type sums struct {
	watched, idle time.Duration
	price         *int64 // in millionths, an hour
	isNew         bool   // not written yet

	idleCost, cost, measured float64 // millionths
}

// New makes a Service. It reads nothing yet: Run does.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Service{Config: c, nodes: map[string]*sums{}}
}

// Run looks and writes until ctx ends.
func (d *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			d.Look(ctx)
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			d.said(last, d.Write(last))
			return nil
		}
		d.Look(ctx)
		if looks%writeEvery == 0 {
			d.said(ctx, d.keep(ctx))
		}
	}
}

// said logs once that a thing fails, and once that it goes on.
func (d *Service) said(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() == nil && d.failing != err.Error():
		d.failing = err.Error()
		d.Logger.Error("what nodes cost is not written: the sums wait in memory", "error", err)
	case err == nil && d.failing != "":
		d.failing = ""
		d.Logger.Info("what nodes cost is written again")
	}
}

// keep writes, and now and then deletes what is too old.
func (d *Service) keep(ctx context.Context) error {
	if err := d.Write(ctx); err != nil {
		return err
	}
	d.writes++
	if d.writes%pruneEvery != 0 {
		return nil
	}
	for {
		n, err := d.Records.Prune(ctx, costs.DayOf(d.Now())-keptDays, pruned)
		if err != nil || n < pruned {
			return err
		}
	}
}

// Look adds the time since the previous look to the day on which that time began, and turns to the next day if the day is over.
func (d *Service) Look(ctx context.Context) {
	now := d.Now()
	passed := min(max(now.Sub(d.last), 0), longest)
	if d.last.IsZero() {
		passed = 0
	}
	d.last = now
	if !d.Ready() {
		return
	}
	rows := d.Nodes()
	if d.ready {
		d.add(rows, passed)
	}
	if day := costs.DayOf(now); !d.ready || day != d.day {
		d.said(ctx, d.turn(ctx, day))
	}
}

// turn goes on with what the database has of a day. Until that is read, nothing counts.
func (d *Service) turn(ctx context.Context, day costs.Day) error {
	if err := d.Write(ctx); err != nil {
		return err
	}
	rows, err := d.Records.OfDay(ctx, day)
	if err != nil {
		return err
	}
	nodes := make(map[string]*sums, len(rows))
	for _, r := range rows {
		nodes[r.NodeID] = &sums{watched: time.Duration(r.Watched) * time.Second, idle: time.Duration(r.Idle) * time.Second,
			idleCost: float64(r.IdleCost), cost: float64(r.Cost), measured: float64(r.Measured), price: r.Price}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = nodes
	d.day = day
	d.ready = true
	return nil
}

func (d *Service) add(rows []*api.NodeRow, passed time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range rows {
		if g.State == wire.StateRetired || g.Status != wire.StatusOnline || passed == 0 {
			continue
		}
		s := d.nodes[g.ID]
		if s == nil {
			s = &sums{}
			d.nodes[g.ID] = s
		}
		s.add(g, passed)
	}
}

// add counts a node that is heard from. What its GPUs do counts only if that is known.
func (s *sums) add(g *api.NodeRow, passed time.Duration) {
	s.isNew = true
	s.price = nil
	idle, known := g.Shares()
	if known > 0 || g.Fresh && len(g.GPUs) == 0 {
		s.watched += passed
		s.idle += passed * time.Duration(g.IdleGPUs())
	}
	if g.PricePerHour == nil {
		return
	}
	s.price = new(int64(math.Round(*g.PricePerHour * millionths)))
	cost := float64(*s.price) * passed.Hours()
	s.cost += cost
	s.measured += cost * known
	s.idleCost += cost * idle
}

// row is what the database keeps: whole seconds and millionths.
func (s *sums) row(id string) costs.Row {
	return costs.Row{NodeID: id, Watched: int64(s.watched / time.Second), Idle: int64(s.idle / time.Second), IdleCost: int64(s.idleCost),
		Cost: int64(s.cost), Measured: int64(s.measured), Price: s.price}
}

// Write writes what has changed since the last write. If a row could not be written, it is written the next time.
func (d *Service) Write(ctx context.Context) error {
	for {
		rows := d.changed()
		if len(rows) == 0 {
			return nil
		}
		if err := d.Records.Save(ctx, d.day, rows); err != nil {
			d.again(rows)
			return err
		}
	}
}

// changed takes some of the rows that are not written yet.
func (d *Service) changed() []costs.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	var rows []costs.Row
	for id, s := range d.nodes {
		if !s.isNew {
			continue
		}
		s.isNew = false
		rows = append(rows, s.row(id))
		if len(rows) == portion {
			break
		}
	}
	return rows
}

func (d *Service) again(rows []costs.Row) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range rows {
		d.nodes[r.NodeID].isNew = true
	}
}

// Today returns what was seen of a node on this day so far; nil: nothing was seen.
func (d *Service) Today(nodeID string) *api.Today {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.nodes[nodeID]
	if s == nil {
		return nil
	}
	r := s.row(nodeID)
	t := &api.Today{Day: d.day.Time().Format(time.DateOnly), WatchedSeconds: r.Watched, IdleGPUSeconds: r.Idle}
	t.IdleCost, t.Cost = money(r)
	return t
}
