// Package session opens sessions on the node: terminals, programs, connections, files and logs, for an operator who cannot reach the node.
//
// A session begins with a signed document, as a task does. Its bytes go over the connection that the node itself opens (package pipe). A
// session lives in this process alone and ends with it. What is on the disk says which programs run, for the agent after this one.
package session

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"muster/agent/internal/account"
	"muster/agent/internal/identity"
	"muster/agent/internal/task"
	"muster/agent/internal/transport"
	"muster/agent/pipe"
	"muster/agent/sign"
	"muster/agent/wire"
)

const (
	// stopTime is for the sessions to end when the agent does.
	stopTime = 4 * time.Second
	// finishTime is for the last words of a session to get to the gateway.
	finishTime = 20 * time.Second
)

// Why a session is ended here.
var (
	errStops  = errors.New("the agent on the node stops")
	errLeft   = errors.New("the operator has left")
	errUpdate = errors.New("the agent on the node is updated: open the session again in a minute")
	errIdle   = errors.New("nothing happened in the session for too long")
	errLimit  = errors.New("the session has lasted as long as it may")
)

// Config is what a Host works with.
type Config struct {
	Client   *transport.Client
	State    string   // the agent's folder on the disk; empty: there is none
	Policies []string // files, the first that is there counts
	Accounts *account.Accounts
	// Logs serves a session.logs. It writes a frame that says that the session has begun. An error says why the session does not begin.
	Logs   func(ctx context.Context, main *pipe.End, params *wire.LogsParams) (pipe.Exit, error)
	Logger *slog.Logger
}

// Host has the sessions of this node. Its methods are safe for concurrent use.
type Host struct {
	Config
	began   time.Time // of this process
	left    []string  // sessions whose programs an agent before this one may have left behind
	life    context.Context
	end     context.CancelCauseFunc
	pace    pace
	copies  copies
	running sync.WaitGroup

	mu     sync.Mutex
	seen   map[string]time.Time               // ids of documents, with when they expire
	past   time.Time                          // documents that expired until then may have been seen, and are forgotten
	open   map[string]context.CancelCauseFunc // the sessions that are open
	shut   error                              // why no session begins now; nil: it may
	waited time.Time                          // since when Hold has been called again and again
	asked  time.Time                          // when it was called last; zero: nobody waits
}

// New makes a Host. It takes sessions before Run, too.
func New(c Config) *Host {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	h := &Host{Config: c, began: time.Now(), seen: map[string]time.Time{}, open: map[string]context.CancelCauseFunc{}}
	h.life, h.end = context.WithCancelCause(context.Background())
	h.left = h.recorded()
	return h
}

// Run ends what an earlier agent has left behind. It ends all sessions when ctx is done, and waits for them for a while.
func (h *Host) Run(ctx context.Context) error {
	for _, id := range h.left {
		h.running.Go(func() { h.endLeft(id) })
	}
	<-ctx.Done()
	h.mu.Lock()
	h.shut = errStops
	h.mu.Unlock()
	h.end(errStops)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.running.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(stopTime):
		h.Logger.Warn("a session does not end in time")
	}
	return nil
}

// Open opens the session of a document whose signature this key has proven. It returns at once. If the session is refused, the gateway
// is told.
func (h *Host) Open(state identity.State, p wire.TaskPayload, key ed25519.PublicKey) {
	if err := wire.CheckSessionID(p.TaskID); err != nil {
		h.Logger.Warn("the gateway gave this node a session that was refused", "error", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known(p) {
		h.Logger.Info("the gateway gave this node a session again: it is not opened again", "session", p.TaskID)
		return
	}
	o := &opening{Host: h, id: p.TaskID, kind: p.Type, key: key}
	err := h.shut
	if err == nil {
		err = h.check(state, p)
	}
	if err == nil && len(h.open) >= wire.MaxNodeSessions {
		err = wire.Refuse(wire.CodeTooManyRequests, fmt.Sprintf("%d sessions are open on the node", len(h.open)), "end some of them")
	}
	if err == nil {
		err = o.read(p)
	}
	ctx, cancel := context.WithCancelCause(h.life)
	if h.shut == nil {
		h.open[p.TaskID] = cancel
	}
	h.running.Go(func() {
		defer h.forget(p.TaskID)
		defer cancel(nil)
		o.run(ctx, cancel, err)
	})
}

// known notes a document, and tells whether it came before.
func (h *Host) known(p wire.TaskPayload) bool {
	now := h.Client.Now()
	for id, expires := range h.seen {
		if expires.Before(now) {
			delete(h.seen, id)
			if expires.After(h.past) {
				h.past = expires
			}
		}
	}
	_, found := h.seen[p.TaskID]
	_, open := h.open[p.TaskID]
	h.seen[p.TaskID] = p.ExpiresAt
	return found || open
}

func (h *Host) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, id)
	if len(h.open) == 0 {
		h.Client.Close() // an idle node holds one connection
	}
}

// check looks whether a document is for this node, and of now. A document from before this process may have been opened by the process
// before: nothing on the disk remembers that. The gateway may set its time back: what has expired once, or by this machine's clock, stays
// expired.
func (h *Host) check(state identity.State, p wire.TaskPayload) error {
	now := identity.Latest(h.Client)
	const hint = "open the session again"
	switch {
	case p.NodeID != state.NodeID:
		return wire.Refuse(wire.CodeWrongNode, "the document is for another node", hint)
	case p.Enrolment != state.Enrolment:
		return wire.Refuse(wire.CodeWrongNode, "the document is for another enrolment of the node", hint)
	case !now.Before(p.ExpiresAt), !p.ExpiresAt.After(h.past):
		return identity.Expired(h.Client, "the document expired before the node had it", hint)
	case p.IssuedAt.Before(now.Add(-time.Since(h.began))):
		return wire.Refuse(wire.CodeTaskExpired, "the document was signed before the agent on the node started", hint)
	case p.IssuedAt.After(state.Within(h.Client).Add(wire.MaxTaskAhead)), p.ExpiresAt.Sub(p.IssuedAt) > wire.MaxTaskLife:
		return wire.Refuse(wire.CodeBadRequest, "the document's times cannot be", "see the clock of who has signed it")
	}
	return nil
}

// opening is a session on its way.
type opening struct {
	*Host
	id     string
	kind   string
	key    ed25519.PublicKey
	params wire.SessionParams
	policy task.Policy
}

// read checks the params, and asks the policy, which is read anew for each session.
func (o *opening) read(p wire.TaskPayload) error {
	kind, err := wire.FindSessionType(p.Type)
	if err != nil {
		return err
	}
	params := kind.New()
	if err := sign.DecodeStrict(p.Params, params); err != nil {
		return wire.Refuse(wire.CodeTaskParamsInvalid, "the params are not those of "+p.Type+": "+err.Error(),
			"the agent on the node may be older than what you use")
	}
	if err := params.Check(); err != nil {
		return err
	}
	owners, err := task.LoadPolicy(o.Policies...)
	if err != nil {
		return wire.Refuse(wire.CodeTaskForbidden, err.Error(), "the owner of this node mends the file")
	}
	o.params = params
	o.policy = owners
	return owners.CheckSession(p.Type, o.key)
}

// run serves the session, or says why not, and waits until the gateway knows how it ended.
func (o *opening) run(ctx context.Context, cancel context.CancelCauseFunc, refused error) {
	clock := newClock(cancel)
	defer clock.stop()
	carry := &carrier{client: o.Client, id: o.id, pace: &o.pace, touch: clock.touch}
	words, quiet := context.WithCancel(context.WithoutCancel(ctx)) // the last words get out when ctx is done already
	defer quiet()
	main := pipe.Open(words, carry, pipe.Main)
	if refused != nil {
		o.refuse(main, refused)
		return
	}
	clock.start(o.params.Bounds())
	go func() { // the gateway's word, also while nobody reads
		<-main.Done()
		cancel(main.Cause())
	}()
	o.Logger.Info("session begins", "session", o.id, "type", o.kind, "signed_by", sign.KeyID(o.key))
	exit, err := o.safely(ctx, main, func(channel int) *pipe.End { return pipe.Open(ctx, carry, channel) })
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errUpdate) || errors.Is(cause, errStops) {
			_ = pipe.WriteFrame(main, pipe.FrameNotice, []byte(cause.Error()))
		}
		exit.Error = cause.Error()
		err = nil
	}
	o.Logger.Info("session ended", "session", o.id, "type", o.kind, "code", exit.Code, "error", errors.Join(err, errorOf(exit.Error)))
	if err != nil {
		o.refuse(main, err)
		return
	}
	_ = pipe.WriteJSON(main, pipe.FrameExit, exit)
	o.finish(main)
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// refuse says why the session does not begin, or why it ends.
func (o *opening) refuse(main *pipe.End, why error) {
	said := wire.SessionRefused{Code: wire.CodeUnavailable, Message: why.Error()}
	var detail *wire.ErrorDetail
	if errors.As(why, &detail) {
		said.Code = detail.Code
	}
	o.Logger.Info("session refused", "session", o.id, "type", o.kind, "code", said.Code, "error", why)
	_ = pipe.WriteJSON(main, pipe.FrameRefused, said)
	o.finish(main)
}

// finish waits until the gateway has everything, but not for long where the agent stops.
func (o *opening) finish(main *pipe.End) {
	late := time.AfterFunc(finishTime, func() { main.Close() })
	defer late.Stop()
	hurry := context.AfterFunc(o.life, func() { late.Reset(stopTime / 4) })
	defer hurry()
	_ = main.CloseWrite() // it fails once the channel is closed
}

// safely serves a session. A fault in one session ends no other one.
func (o *opening) safely(ctx context.Context, main *pipe.End, channel func(int) *pipe.End) (exit pipe.Exit, err error) {
	defer func() {
		if p := recover(); p != nil {
			o.Logger.Error("a session panicked", "session", o.id, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the agent has a fault in this type of session: %v", p)
		}
	}()
	return o.serve(ctx, main, channel)
}
