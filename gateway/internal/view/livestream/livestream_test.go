package livestream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// TestBegins: the header, and a first sign of life before anything has happened. Later ones follow.
func TestBegins(t *testing.T) {
	inBubble(t, func(h *house) {
		l := h.listen(kinds(api.StreamNode), "")
		if got := l.all(); got != alive || l.Code != 200 || l.Header().Get("Content-Type") != api.StreamType {
			t.Errorf("got %d %v %q", l.Code, l.Header(), got)
		}
		time.Sleep(16 * time.Second)
		if got := l.all(); got != alive {
			t.Errorf("got %q", got)
		}
		leaves(l)
	})
}

// TestNodes: a list of nothing is empty and never null.
func TestNodes(t *testing.T) {
	inBubble(t, func(h *house) {
		to := kinds(api.StreamNode)
		to.Nodes.State = "ready"
		l := h.listen(to, "")
		l.hear()
		h.source.Overview.Findings("id-n", []api.Finding{{Rule: "x"}})
		if got := l.hear(); !strings.Contains(got, "event: node\ndata: {\"nodes\":[{") || !strings.Contains(got, `"gone":[]`) {
			t.Errorf("got %q", got)
		}
		h.must(h.store.MoveNode(h.t.Context(), store.Move{NodeID: "id-n", From: "ready", To: "active", At: time.Now()}))
		h.source.Overview.Load(h.t.Context())
		if got := l.hear(); !strings.Contains(got, `"nodes":[],"gone":["id-n"]`) {
			t.Errorf("got %q", got)
		}
		leaves(l)
	})
}

// TestBrief: of a heartbeat the values alone are sent, and of anything else what the page of the fleet shows.
func TestBrief(t *testing.T) {
	inBubble(t, func(h *house) {
		to := kinds(api.StreamBrief)
		to.Nodes.State = "ready"
		l := h.listen(to, "")
		l.hear()
		h.source.Overview.Findings("id-n", []api.Finding{{Rule: "x"}})
		got := l.hear()
		if !strings.Contains(got, "event: brief\ndata: {\"nodes\":[{\"name\":\"n\"") || !strings.Contains(got, `"alive":[],"gone":[]`) {
			t.Errorf("got %q", got)
		}
		at := time.Now()
		beat := func(use float64) {
			h.source.Overview.Take(h.t.Context(), []view.Sample{{NodeID: "id-n", At: at, Interval: time.Minute, Hardware: &wire.Hardware{
				Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &at}, GPUs: []wire.GPU{{UUID: "GPU-1", UtilizationPercent: &use}}}}})
		}
		beat(1)
		l.hear()
		beat(42)
		want := fmt.Sprintf(`data: {"nodes":[],"alive":[{"id":"id-n","last_seen":%[1]q,"read_at":%[1]q,"values":[[42,null,null,null]]}],"gone":[]}`,
			at.UTC().Format(time.RFC3339))
		if got := l.hear(); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		h.must(h.store.MoveNode(h.t.Context(), store.Move{NodeID: "id-n", From: "ready", To: "active", At: time.Now()}))
		h.source.Overview.Load(h.t.Context())
		if got := l.hear(); !strings.Contains(got, `"nodes":[],"alive":[],"gone":["id-n"]`) {
			t.Errorf("got %q", got)
		}
		leaves(l)
	})
}

// TestManyNodes: many changes come in several events, each of which fits into memory, and none is lost.
func TestManyNodes(t *testing.T) {
	inBubble(t, func(h *house) {
		l := h.listen(kinds(api.StreamNode), "")
		brief := h.listen(kinds(api.StreamBrief), "")
		for i := range 450 {
			id := fmt.Sprintf("id-%03d", i)
			h.must(h.store.CreateNode(h.t.Context(), store.Node{ID: id, Name: id, Tenant: "platform", CreatedAt: time.Now()}, nil))
		}
		h.source.Overview.Load(h.t.Context())
		got := l.hear()
		if n := strings.Count(got, `"id":"id-`); n != 450 {
			h.t.Errorf("heard of %d nodes", n)
		}
		for part := range strings.SplitSeq(got, "event: node\n") {
			if n := strings.Count(part, `"id":"id-`); n > 200 {
				h.t.Errorf("an event with %d nodes", n)
			}
		}
		if got := brief.hear(); strings.Count(got, `"id":"id-`) != 450 || strings.Count(got, "event: brief\n") < 3 {
			h.t.Errorf("in brief %d nodes", strings.Count(got, `"id":"id-`))
		}
		leaves(l)
		leaves(brief)
	})
}

// TestEvents: a reader gets the kinds that it asked for, of its tenant, and goes on where it was.
func TestEvents(t *testing.T) {
	inBubble(t, func(h *house) {
		id := wire.NewTaskID()
		events := h.listen(kinds(api.StreamEvent), "")
		tasks := h.listen(kinds(api.StreamTask), "")
		h.happens(store.Event{Kind: "node.drained", Tenant: "research"})
		if got := events.hear() + tasks.hear(); got != "" {
			t.Errorf("of another tenant: %q", got)
		}
		h.happens(store.Event{Kind: "node.drained", Tenant: "platform"}, taskEvent(id), taskEvent(id), taskEvent("../x"))
		got := events.hear()
		if strings.Count(got, "event: ") != 1 || strings.Count(got, `"kind":"`) != 4 || !strings.HasPrefix(got, "id: 5\nevent: event\n") {
			t.Errorf("got %q", got)
		}
		got = tasks.hear()
		if strings.Count(got, `"id":"`) != 1 || !strings.HasPrefix(got, "id: 5\nevent: task\n") || !strings.Contains(got, id) {
			t.Errorf("got %q", got)
		}
		again := h.listen(kinds(api.StreamEvent), "4")
		if got := again.hear(); strings.Count(got, `"kind":"`) != 1 || strings.Contains(got, "lost") {
			t.Errorf("after event 4: %q", got)
		}
		leaves(events, tasks, again)
	})
}

// TestLost: where something is left out, the reader is told to load again: nodes that changed while it was away, events that are not in
// memory, and more tasks than are read at once.
func TestLost(t *testing.T) {
	const lost = "event: lost\ndata: {}\n\n"
	inBubble(t, func(h *house) {
		h.happens(store.Event{Kind: "node.drained"})
		time.Sleep(time.Second)
		nodes := h.listen(kinds(api.StreamNode), "1")
		events := h.listen(kinds(api.StreamEvent), "99")
		for _, l := range []*listener{nodes, events} {
			if got := l.hear(); got != "id: 1\n"+lost {
				t.Errorf("got %q", got)
			}
		}
		tasks := h.listen(kinds(api.StreamTask), "")
		var many []store.Event
		for range 101 {
			many = append(many, taskEvent(wire.NewTaskID()))
		}
		h.happens(many[:100]...)
		if got := tasks.hear(); strings.Count(got, `"id":"`) != 100 || strings.Contains(got, "lost") {
			t.Errorf("100 tasks: got %q", got)
		}
		h.happens(many...)
		if got := tasks.hear(); !strings.HasSuffix(got, lost) || strings.Contains(got, "event: task") {
			t.Errorf("101 tasks: got %q", got)
		}
		leaves(nodes, events, tasks)
	})
}

// TestTaskMoved: a reader of tasks hears that one was given out or has begun, although no event says so; once where it moves twice at
// once. Readers of other things or of another tenant hear nothing.
func TestTaskMoved(t *testing.T) {
	const lost = "event: lost\ndata: {}\n\n"
	inBubble(t, func(h *house) {
		tasks := h.listen(kinds(api.StreamTask), "")
		nodes := h.listen(kinds(api.StreamNode), "")
		other := kinds(api.StreamTask)
		other.Nodes.Tenant = "research"
		elsewhere := h.listen(other, "")
		for _, l := range []*listener{tasks, nodes, elsewhere} {
			l.hear()
		}
		id := wire.NewTaskID()
		h.streams.TaskMoved("id-n", id)
		h.streams.TaskMoved("id-n", id)
		h.streams.TaskMoved("id-none", wire.NewTaskID())
		if got := tasks.hear(); strings.Count(got, `"id":"`) != 1 || !strings.Contains(got, id) {
			t.Errorf("got %q", got)
		}
		if got := nodes.hear() + elsewhere.hear(); got != "" {
			t.Errorf("the others heard %q", got)
		}
		for range 101 {
			h.streams.TaskMoved("id-n", wire.NewTaskID())
		}
		if got := tasks.hear(); !strings.HasSuffix(got, lost) || strings.Contains(got, "event: task") {
			t.Errorf("101 tasks: got %q", got)
		}
		h.streams.TaskMoved("id-n", id)
		if got := tasks.hear(); strings.Count(got, `"id":"`) != 1 {
			t.Errorf("after that: got %q", got)
		}
		leaves(tasks, nodes, elsewhere)
		h.streams.TaskMoved("id-n", id)
	})
}

// TestManyMoves: a reader whose client holds the stream up is told that moves were lost, and hears of the next ones again.
func TestManyMoves(t *testing.T) {
	inBubble(t, func(h *house) {
		l := &held{httptest.NewRecorder(), make(chan struct{})}
		ctx, leave := context.WithCancel(h.t.Context())
		ended := make(chan error, 1)
		to := kinds(api.StreamTask)
		to.Still = func() bool { return true }
		go func() {
			ended <- h.streams.Serve(l, httptest.NewRequestWithContext(ctx, "GET", "/", nil), h.source, to)
		}()
		synctest.Wait()
		id := wire.NewTaskID()
		for range 1000 {
			h.streams.TaskMoved("id-n", id)
		}
		close(l.gate)
		time.Sleep(time.Second)
		h.streams.TaskMoved("id-n", id)
		time.Sleep(time.Second)
		leave()
		h.must(<-ended)
		if got := l.Body.String(); strings.Count(got, "event: lost") != 1 || strings.Count(got, "event: task") != 1 ||
			strings.Index(got, "event: lost") > strings.Index(got, "event: task") {
			t.Errorf("got %q", got)
		}
	})
}

// held writes nothing until its gate is open.
type held struct {
	*httptest.ResponseRecorder
	gate chan struct{}
}

func (h *held) Write(data []byte) (int, error) {
	<-h.gate
	return h.ResponseRecorder.Write(data)
}

// TestGuard: it ends with the account, at once where an event says so, and soon if none does.
func TestGuard(t *testing.T) {
	inBubble(t, func(h *house) {
		gone := errors.New("the account is gone")
		var may atomic.Bool
		may.Store(true)
		still := func() error {
			if may.Load() {
				return nil
			}
			return gone
		}
		guard := func() chan error {
			ended := make(chan error, 1)
			go func() { ended <- livestream.Guard(h.t.Context(), h.source.Tail, still) }()
			time.Sleep(time.Second)
			return ended
		}
		first := guard()
		h.happens(store.Event{Kind: "account.revoked"})
		time.Sleep(time.Second)
		may.Store(false)
		h.happens(store.Event{Kind: "node.drained"})
		time.Sleep(time.Second)
		if len(first) != 0 {
			t.Errorf("it ended with %v, although nothing was said of an account since", <-first)
		}
		h.happens(store.Event{Kind: "account.revoked"})
		time.Sleep(time.Second)
		if err := <-first; !errors.Is(err, gone) {
			t.Error(err)
		}
		second := guard()
		time.Sleep(16 * time.Second)
		if err := <-second; !errors.Is(err, gone) {
			t.Error(err)
		}
		ctx, leave := context.WithCancel(h.t.Context())
		leave()
		if err := livestream.Guard(ctx, h.source.Tail, still); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestTaskGone: a task that cannot be read is not told of.
func TestTaskGone(t *testing.T) {
	inBubble(t, func(h *house) {
		l := h.listen(livestream.Reader{Kinds: []string{api.StreamTask}}, "")
		h.happens(taskEvent(wire.NewTaskID()))
		if got := l.hear(); got != "" {
			t.Errorf("got %q", got)
		}
		leaves(l)
	})
}

// TestEnds: the reader is asked about again with each sign of life and with each event about an account.
func TestEnds(t *testing.T) {
	inBubble(t, func(h *house) {
		everywhere := h.listen(livestream.Reader{Kinds: []string{api.StreamEvent}}, "")
		stays := h.listen(livestream.Reader{Kinds: []string{api.StreamEvent}}, "")
		everywhere.may.Store(false)
		if everywhere.hear(); everywhere.isOver() {
			t.Error("it ended with no sign of life and no event")
		}
		h.happens(store.Event{Kind: "account.revoked"})
		everywhere.hear()
		if !everywhere.isOver() || stays.isOver() {
			t.Errorf("over: %v, the other: %v", everywhere.isOver(), stays.isOver())
		}
		stays.may.Store(false)
		time.Sleep(16 * time.Second)
		if !stays.isOver() {
			t.Error("it goes on for a reader who may not read any more")
		}
	})
}

// TestEndsFirst: who may not read any more gets nothing of what came with the end of the account, and the end is seen by a reader of one
// tenant too, though the event is not of that tenant.
func TestEndsFirst(t *testing.T) {
	inBubble(t, func(h *house) {
		l := h.listen(kinds(api.StreamEvent), "")
		l.may.Store(false)
		h.happens(store.Event{Kind: "account.revoked"}, store.Event{Kind: "node.drained", Tenant: "platform"})
		if got := l.hear(); got != "" || !l.isOver() {
			t.Errorf("over: %v, got %q", l.isOver(), got)
		}
	})
}

// TestEndsUnseen: among events that are not in memory any more may be the end of the account.
func TestEndsUnseen(t *testing.T) {
	inBubble(t, func(h *house) {
		to := kinds(api.StreamEvent)
		to.Still = func() bool { return false }
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(api.HeaderLastEvent, "99")
		w := httptest.NewRecorder()
		h.must(h.streams.Serve(w, r, h.source, to))
		if got := w.Body.String(); got != alive {
			t.Errorf("got %q", got)
		}
	})
}

// TestRun: a gateway that stops ends all streams, also one that begins after that.
func TestRun(t *testing.T) {
	inBubble(t, func(h *house) {
		l := h.listen(kinds(api.StreamNode), "")
		ctx, stop := context.WithCancel(h.t.Context())
		stop()
		h.must(h.streams.Run(ctx))
		late := h.listen(kinds(api.StreamNode), "")
		if !l.isOver() || !late.isOver() {
			t.Errorf("over: %v, the late one: %v", l.isOver(), late.isOver())
		}
	})
}

// TestBounds: one account cannot take all, all have a bound, and who leaves makes room.
func TestBounds(t *testing.T) {
	inBubble(t, func(h *house) {
		of := func(i int) livestream.Reader { return livestream.Reader{Account: fmt.Sprint(i / 16)} }
		var open []*listener
		for i := range 16 {
			open = append(open, h.listen(of(i), ""))
		}
		h.refuses(of(0), "this account has too many")
		leaves(open[0])
		open[0] = h.listen(of(0), "")
		for i := range 512 - 16 {
			open = append(open, h.listen(of(16+i), ""))
		}
		h.refuses(of(512), "the gateway has too many")
		for _, l := range open {
			if l.isOver() {
				t.Fatal("a stream within the bounds has ended")
			}
		}
		leaves(open...)
		leaves(h.listen(of(512), ""))
	})
}

func (h *house) refuses(to livestream.Reader, why string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	cancel() // one that is not refused ends too
	w := httptest.NewRecorder()
	err := h.streams.Serve(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil), h.source, to)
	if err == nil || !strings.Contains(err.Error(), why) || w.Body.Len() > 0 {
		h.t.Errorf("got %v, %q", err, w.Body)
	}
}

// deaf is the answer to a reader whose connection is broken.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken") }

// TestDeaf: a stream to which nothing can be written ends.
func TestDeaf(t *testing.T) {
	inBubble(t, func(h *house) {
		to := kinds(api.StreamNode)
		to.Still = func() bool {
			h.t.Error("it waits for its next sign of life")
			return false
		}
		h.must(h.streams.Serve(deaf{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil), h.source, to))
	})
}
