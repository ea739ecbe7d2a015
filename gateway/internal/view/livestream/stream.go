package livestream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/view"
	"muster/store"
)

// beat is the time between two signs of life of a stream. With each, the reader is looked at again.
const beat = 15 * time.Second

// stream is one reader. Its own goroutine alone writes to it.
type stream struct {
	Source
	Reader
	w     http.ResponseWriter
	after int64 // the last event of the log that the reader has
	err   error // why nothing more can be written
	moves moves // of tasks
}

func (s *stream) begin() {
	reply.Begin(s.w, api.StreamType).Set("X-Accel-Buffering", "no") // nginx would keep it back
	s.w.WriteHeader(http.StatusOK)
}

// run writes what comes until somebody ends it. The first comment says that the stream has begun. again: the reader was here before, and
// has missed what nodes did meanwhile.
func (s *stream) run(ctx context.Context, ended <-chan struct{}, again bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := make(chan view.Changes)
	if slices.Contains(s.Kinds, api.StreamNode) || slices.Contains(s.Kinds, api.StreamBrief) {
		watch := s.Overview.Watch(s.Nodes)
		go follow(ctx, watch, nodes)
		if again {
			s.send(api.StreamLost, struct{}{})
		}
	}
	s.comment()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for s.err == nil {
		events, lost, news := s.Tail.After(s.after)
		if (lost || slices.ContainsFunc(events, endsAccounts)) && !s.Still() {
			return
		}
		s.tell(ctx, events, lost)
		select {
		case <-news:
		case changed := <-nodes:
			s.sendNodes(changed)
		case id := <-s.moves.heard:
			s.moves.collect(id)
		case <-s.moves.due:
			s.sendMoves(ctx)
		case <-ticker.C:
			if !s.Still() {
				return
			}
			s.comment()
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// follow passes on what a watch tells.
func follow(ctx context.Context, watch *view.Watch, to chan<- view.Changes) {
	for {
		changes, err := watch.Next(ctx)
		if err != nil {
			return
		}
		select {
		case to <- changes:
		case <-ctx.Done():
			return
		}
	}
}

// endsAccounts is true for an event about accounts, of whatever tenant: one of them may be the reader's.
func endsAccounts(e store.Event) bool { return strings.HasPrefix(e.Kind, "account.") }

// tell sends what is new in the log.
func (s *stream) tell(ctx context.Context, events []store.Event, lost bool) {
	if lost {
		s.after = s.Tail.Last()
		s.send(api.StreamLost, struct{}{})
		return
	}
	if len(events) == 0 {
		return
	}
	s.after = events[len(events)-1].ID
	mine := slices.DeleteFunc(events, func(e store.Event) bool { return s.Nodes.Tenant != "" && e.Tenant != s.Nodes.Tenant })
	if len(mine) == 0 {
		return
	}
	if slices.Contains(s.Kinds, api.StreamEvent) {
		s.sendEvents(mine)
	}
	if slices.Contains(s.Kinds, api.StreamTask) {
		s.sendTasks(ctx, tasksOf(mine))
	}
}

// nodesAtOnce bounds how many nodes one server-sent event tells of: it stays in memory until a slow reader has taken it.
const nodesAtOnce = 200

func (s *stream) sendNodes(c view.Changes) {
	if slices.Contains(s.Kinds, api.StreamNode) {
		s.sendWhole(slices.Concat(c.Nodes, c.Alive), c.Gone)
	}
	if slices.Contains(s.Kinds, api.StreamBrief) {
		s.sendBrief(c)
	}
}

func (s *stream) sendWhole(nodes []*api.NodeRow, gone []string) {
	for part := range slices.Chunk(nodes, nodesAtOnce) {
		s.send(api.StreamNode, api.StreamNodes{Nodes: part, Gone: []string{}})
	}
	if len(gone) > 0 {
		s.send(api.StreamNode, api.StreamNodes{Nodes: []*api.NodeRow{}, Gone: gone})
	}
}

func (s *stream) sendBrief(c view.Changes) {
	for part := range slices.Chunk(c.Nodes, nodesAtOnce) {
		s.send(api.StreamBrief, api.StreamBriefs{Nodes: api.Each(part, api.BriefOf), Alive: []api.Live{}, Gone: []string{}})
	}
	for part := range slices.Chunk(c.Alive, nodesAtOnce) {
		s.send(api.StreamBrief, api.StreamBriefs{Nodes: []api.Brief{}, Alive: api.Each(part, api.LiveOf), Gone: []string{}})
	}
	if len(c.Gone) > 0 {
		s.send(api.StreamBrief, api.StreamBriefs{Nodes: []api.Brief{}, Alive: []api.Live{}, Gone: c.Gone})
	}
}

func (s *stream) sendEvents(events []store.Event) {
	s.send(api.StreamEvent, api.EventList{Events: api.Each(events, audit.Shown)})
}

// mostTasksTold bounds how many tasks are read for one reader at once. Beyond that the reader loads its page again.
const mostTasksTold = 100

// tasksOf are the ids of the tasks that events are about.
func tasksOf(events []store.Event) []string {
	var ids []string
	for _, e := range events {
		if id := e.Detail["task"]; strings.HasPrefix(e.Kind, "task.") && wire.CheckTaskID(id) == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// sendTasks sends tasks as they are now.
func (s *stream) sendTasks(ctx context.Context, ids []string) {
	if len(ids) > mostTasksTold {
		s.send(api.StreamLost, struct{}{})
		return
	}
	tasks := []api.Task{}
	for _, id := range ids {
		if t, err := s.Task(ctx, s.Nodes.Tenant, id); err == nil { // one that is gone meanwhile is not told of
			tasks = append(tasks, t)
		}
	}
	if len(tasks) > 0 {
		s.send(api.StreamTask, api.TaskPage{Tasks: tasks})
	}
}

// send writes one server-sent event. JSON has no line break in it.
func (s *stream) send(kind string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		s.err = err
		return
	}
	s.write(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", s.after, kind, raw))
}

// comment is a sign of life.
func (s *stream) comment() { s.write(": alive\n\n") }

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = http.NewResponseController(s.w).Flush()
	}
}
