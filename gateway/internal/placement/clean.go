package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
	records "muster/store/placement"
)

const (
	cleanTime  = 15 * time.Minute // until a node must have begun to clean
	cleanAgain = time.Minute      // after a try; doubled with each, up to cleanPause
	cleanPause = 30 * time.Minute
)

// cleanUp has nodes clean the GPUs of allocations that have ended.
func (s *Service) cleanUp(ctx context.Context) error {
	now := s.Now()
	due, err := s.Records.Due(ctx, now)
	if err != nil {
		return err
	}
	for _, w := range due {
		if err := s.clean(ctx, w, now); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// clean sends one node to clean. A node that does not come for it in time is asked again.
func (s *Service) clean(ctx context.Context, w records.Work, now time.Time) error {
	if works, err := s.endWork(ctx, w); works || err != nil {
		return err
	}
	next := now.Add(cleanTime + min(cleanAgain<<min(w.Tries, 10), cleanPause))
	if err := s.Records.Try(ctx, w, now, next); err != nil {
		return err
	}
	p := wire.GPUClean{Allocation: w.Allocation}
	for _, u := range w.Units {
		p.GPUs = append(p.GPUs, u.UUID)
	}
	var err error
	if p.Users, err = s.usersOf(ctx, w); err != nil {
		return err
	}
	o := inventory.Order{ID: inventory.Named(kindClean, w.Allocation, w.NodeID, strconv.Itoa(w.Tries)), NodeID: w.NodeID,
		Type: wire.TaskGPUClean, Params: p,
		Expires: cleanTime, By: store.Actor{Name: inventory.ByGateway}}
	if err := s.Records.AddTask(ctx, records.AllocationTask{Allocation: w.Allocation, Task: o.ID, NodeID: w.NodeID,
		Kind: kindClean}); err != nil {
		return err
	}
	err = s.Send(ctx, o)
	if refused, is := errors.AsType[*wire.ErrorDetail](err); is {
		return s.block(ctx, w.Allocation, w.NodeID, []wire.Left{{What: refused.Message, Next: refused.Hint}}, next)
	}
	return err
}

// endWork cancels the tasks of an allocation on a node, and reports whether some have not ended: what one of them starts after the cleaning
// would work on GPUs that somebody else has by then. Every task ends: its node hears that it is canceled, or does not come for it in time.
func (s *Service) endWork(ctx context.Context, w records.Work) (works bool, err error) {
	for q := (store.TaskQuery{Node: w.NodeID, Open: true}); ; {
		tasks, next, err := s.Store.Tasks(store.Fresh(ctx), q)
		if err != nil {
			return true, err
		}
		for _, t := range tasks {
			if allocationOf(t) != w.Allocation || t.Type == wire.TaskGPUClean {
				continue
			}
			works = true
			var ended *wire.ErrorDetail // meanwhile
			if err := s.Cancel(ctx, t.ID, store.Actor{Name: inventory.ByGateway}); err != nil && !errors.As(err, &ended) {
				return true, err
			}
		}
		if next == "" {
			return works, nil
		}
		q.Cursor = next
	}
}

// allocationOf is the allocation that a task names; empty: none.
func allocationOf(t store.Task) string {
	var payload wire.TaskPayload
	var p struct {
		Allocation string `json:"allocation"`
	}
	if json.Unmarshal(t.Payload, &payload) != nil || json.Unmarshal(payload.Params, &p) != nil {
		return "" // params of other types have other shapes
	}
	return p.Allocation
}

// usersOf are the accounts on a node that were made for an allocation, and that no other allocation has there.
func (s *Service) usersOf(ctx context.Context, w records.Work) ([]string, error) {
	row, err := s.Records.Allocation(ctx, w.Allocation)
	user := askOf(row).user
	if err != nil || user == nil {
		return nil, err
	}
	list, _, _, err := s.Records.Allocations(ctx, records.AllocationQuery{State: records.Allocated, NodeID: w.NodeID, Limit: store.Piece})
	for _, other := range list {
		if theirs := askOf(other).user; theirs != nil && theirs.Name == user.Name {
			return nil, err
		}
	}
	return []string{user.Name}, err
}

// takeCleaning takes what a node says of its cleaning. Anything but a clear word keeps the GPUs back.
func (s *Service) takeCleaning(ctx context.Context, t store.Task) error {
	if t.CreatedBy != inventory.ByGateway { // somebody else asked, and maybe for less
		return nil
	}
	var payload wire.TaskPayload
	var p wire.GPUClean
	if json.Unmarshal(t.Payload, &payload) != nil || json.Unmarshal(payload.Params, &p) != nil {
		return nil // nobody signs such a task
	}
	units, err := s.unitsOf(ctx, p.Allocation, t.NodeID)
	if err != nil || len(units) == 0 { // it was freed meanwhile, or the task was not ours
		return err
	}
	cleaning := cleaningOf(t)
	if row, known := s.Node(t.NodeID); known {
		for i := range cleaning.Left { // the agent does not know its name
			cleaning.Left[i].Next = strings.ReplaceAll(cleaning.Left[i].Next, " NODE ", " "+row.Name+" ")
		}
	}
	left := remains(cleaning, p, units)
	var clean []string
	for key, uuid := range units {
		if _, dirty := left[key]; !dirty && uuid != "" {
			clean = append(clean, key)
		}
	}
	if len(clean) > 0 {
		err = s.freed(ctx, p.Allocation, t, clean)
	}
	if err == nil && len(left) > 0 {
		err = s.obstruct(ctx, p.Allocation, t.NodeID, left, s.Now().Add(s.pauseOf(t.NodeID, p.Allocation)))
	}
	if err == nil || errors.Is(err, store.ErrConflict) {
		err = s.Reread(ctx, t.NodeID)
		s.Wake()
	}
	return err
}

// cleaningOf reads a task's value. A task that failed has looked at nothing.
func cleaningOf(t store.Task) wire.Cleaning {
	var values wire.TaskValues
	if t.Status == store.TaskCompleted && json.Unmarshal([]byte(t.Values), &values) == nil {
		if c, err := wire.ReadCleaning(values); err == nil {
			return c
		}
	}
	why := "the node could not look whether its GPUs are clean: its task " + t.ID + " is " + t.Status
	if t.Error != "" {
		why += ": " + t.Error
	}
	return wire.Cleaning{Left: []wire.Left{{What: wire.Plain(why, wire.MaxSaw), Next: "muster task show " + t.ID}}}
}

// remains are what is in the way of each unit, by key. A GPU that the task was not asked about was not looked at.
func remains(c wire.Cleaning, p wire.GPUClean, units map[string]string) map[string]wire.Left {
	left := map[string]wire.Left{}
	asked := map[string]bool{}
	for _, uuid := range p.GPUs {
		asked[uuid] = true
	}
	for key, uuid := range units {
		if !asked[uuid] {
			left[key] = wire.Left{What: "this GPU was not looked at", Next: "it is looked at again"}
		}
		for _, l := range c.Left {
			if l.GPU == "" || l.GPU == uuid {
				left[key] = l
				break
			}
		}
		if _, there := left[key]; !there && !c.Clean && len(c.Left) == 0 {
			left[key] = wire.Left{What: "the node does not say that it is clean", Next: "it is looked at again"}
		}
	}
	return left
}

// unitsOf are the units of an allocation on a node that are not clean, with the UUIDs that the node knows them by.
func (s *Service) unitsOf(ctx context.Context, allocation, nodeID string) (map[string]string, error) {
	row, err := s.Records.Allocation(ctx, allocation)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	units := map[string]string{}
	for _, h := range row.Holds {
		if h.NodeID == nodeID && h.FreedAt == nil && h.State != records.Held {
			units[h.Key] = s.uuidNow(h)
		}
	}
	return units, err
}

// uuidNow is the GPU that is where a hold is: there may be another one now than when it was claimed.
func (s *Service) uuidNow(h records.Hold) string {
	if node, known := s.Node(h.NodeID); known {
		slot, _ := s.Slot(node, h.SlotID)
		for _, u := range slot.Units {
			if u.Key == h.Key && u.UUID != "" {
				return u.UUID
			}
		}
	}
	return h.UUID
}

// freed frees units that are clean.
func (s *Service) freed(ctx context.Context, allocation string, t store.Task, clean []string) error {
	row, _ := s.Node(t.NodeID)
	e := s.Event("gpu.cleaned", row, store.Actor{Name: "node:" + t.NodeID}, map[string]string{"allocation": allocation,
		"gpus": strconv.Itoa(len(clean))})
	return s.Records.Clean(ctx, allocation, t.NodeID, clean, s.Now(), e)
}

// obstruct notes what is in the way. It is an event when it was not in the way before.
func (s *Service) obstruct(ctx context.Context, allocation, nodeID string, left map[string]wire.Left, again time.Time) error {
	var obstacles []records.Obstacle
	first := ""
	before := map[string]inventory.Hold{}
	for _, h := range s.Holds(nodeID) {
		before[h.Key] = h
	}
	for key, l := range left {
		obstacles = append(obstacles, records.Obstacle{Unit: key, Reason: l.What, Next: l.Next})
		if h := before[key]; h.State != records.Blocked || h.Reason != l.What {
			first = l.What
		}
	}
	var events []store.Event
	if row, known := s.Node(nodeID); known && first != "" {
		e := s.Event("gpu.cleanup_blocked", row, store.Actor{Name: "node:" + nodeID}, map[string]string{"allocation": allocation, "reason": first,
			"gpus": fmt.Sprint(len(left))})
		events = append(events, e)
	}
	return s.Records.Block(ctx, allocation, nodeID, obstacles, again, events...)
}

// block has all units of an allocation on a node blocked for one reason.
func (s *Service) block(ctx context.Context, allocation, nodeID string, why []wire.Left, again time.Time) error {
	units, err := s.unitsOf(ctx, allocation, nodeID)
	if err != nil {
		return err
	}
	if err := s.obstruct(ctx, allocation, nodeID, remains(wire.Cleaning{Left: why}, wire.GPUClean{}, units), again); err != nil {
		return err
	}
	return s.Reread(ctx, nodeID)
}

// pauseOf is the time until the next try.
func (s *Service) pauseOf(nodeID, allocation string) time.Duration {
	tries := 0
	for _, h := range s.Holds(nodeID) {
		if h.Allocation == allocation {
			tries = max(tries, h.Tries)
		}
	}
	return min(cleanAgain<<min(tries, 10), cleanPause)
}
