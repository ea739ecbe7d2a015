package livestream_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// house is what streams rest on.
type house struct {
	t       *testing.T
	store   *store.Store
	streams *livestream.Streams
	source  livestream.Source
}

var errNoTask = errors.New("there is no such task")

// inBubble runs a house whose log is read. Its tasks are all of one tenant.
func inBubble(t *testing.T, do func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		h := &house{t: t, streams: livestream.New()}
		h.store = kit.Store(t, nil)
		picture := view.Open(view.Config{Store: h.store, Ref: func() store.StatusRef { return store.StatusRef{Now: time.Now()} }})
		h.must(h.store.CreateNode(t.Context(), store.Node{ID: "id-n", Name: "n", Tenant: "platform", CreatedAt: time.Now()}, nil))
		picture.Load(t.Context())
		h.source = livestream.Source{Overview: picture,
			Task: func(_ context.Context, tenant, id string) (api.Task, error) {
				if tenant != "platform" {
					return api.Task{}, errNoTask
				}
				return api.Task{ID: id, Tenant: tenant}, nil
			}}
		var err error
		h.source.Tail, err = audit.OpenTail(t.Context(), audit.TailConfig{Store: h.store})
		h.must(err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.source.Tail.Run(ctx) }()
		do(h)
		cancel()
		h.must(<-ended)
	})
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) happens(events ...store.Event) {
	h.t.Helper()
	for i := range events {
		events[i].Outcome = store.OutcomeOK
	}
	h.must(h.store.AddEvents(h.t.Context(), events...))
}

// listener is one reader of a stream.
type listener struct {
	*httptest.ResponseRecorder
	mu    sync.Mutex // the stream writes while the test reads
	may   atomic.Bool
	leave context.CancelFunc
	ended chan error
	over  bool
}

// listen opens a stream for a reader, who was there before if last is not empty.
func (h *house) listen(to livestream.Reader, last string) *listener {
	ctx, cancel := context.WithCancel(h.t.Context())
	l := &listener{ResponseRecorder: httptest.NewRecorder(), leave: cancel, ended: make(chan error, 1)}
	l.may.Store(true)
	to.Still = l.may.Load
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.Header.Set(api.HeaderLastEvent, last)
	go func() { l.ended <- h.streams.Serve(l, r, h.source, to) }()
	synctest.Wait()
	return l
}

func (l *listener) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ResponseRecorder.Write(data)
}

func (l *listener) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ResponseRecorder.Flush()
}

// all gives what was sent and flushed since the last call.
func (l *listener) all() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.Body.String()
	if !l.Flushed {
		text = ""
	}
	l.Body.Reset()
	l.Flushed = false
	return text
}

// hear gives the same after a while, without signs of life.
func (l *listener) hear() string {
	time.Sleep(3 * time.Second) // of the bubble's clock
	return strings.ReplaceAll(l.all(), alive, "")
}

const alive = ": alive\n\n"

// isOver tells whether the stream has ended.
func (l *listener) isOver() bool {
	synctest.Wait()
	if !l.over {
		l.over = len(l.ended) > 0
	}
	return l.over
}

// leaves ends the streams of readers who go away.
func leaves(all ...*listener) {
	for _, l := range all {
		l.leave()
		<-l.ended
	}
}

// kinds is a reader of one tenant who asks for some kinds.
func kinds(kinds ...string) livestream.Reader {
	return livestream.Reader{Account: "a", Nodes: view.Query{Tenant: "platform"}, Kinds: kinds}
}

// taskEvent is an event of a task of the reader's tenant.
func taskEvent(id string) store.Event {
	return store.Event{Kind: "task.created", Tenant: "platform", Detail: map[string]string{"task": id}}
}
