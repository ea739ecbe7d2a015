package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/session"
	"muster/store/sessions"
)

// operator is the caller as the service of sessions knows callers.
func (c *call) operator() session.Caller {
	return session.Caller{Actor: c.Caller.Actor, Account: c.Caller.Account.ID, Tenant: c.Caller.Tenant, May: func(opener string) error {
		if opener == "" {
			return c.Caller.Needs(api.ScopeSessions) // no part opens it
		}
		return c.Caller.Part(api.ScopeSessions, opener)
	}}
}

// listSessions lists those of one node, or of all.
func (c *call) listSessions(f api.SessionFilter) (any, error) {
	if f.Type != "" {
		if _, err := wire.FindSessionType(f.Type); err != nil {
			return nil, err
		}
	}
	if known := api.SessionStatuses(); f.Status != "" && !slices.Contains(known, f.Status) {
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no status of a session", f.Status),
			"it is one of "+strings.Join(known, ", "))
	}
	q := sessions.Query{Node: c.Named("node"), Tenant: f.Tenant, Type: f.Type, Cursor: f.Cursor, Limit: f.Limit}
	if f.Status != "" {
		ended := f.Status == api.SessionEnded
		q.Ended = &ended
	}
	if q.Node != "" {
		if _, err := c.Fleet.Node(c.Context(), c.Caller.Tenant, q.Node); err != nil {
			return nil, err
		}
	}
	shown, next, err := c.Sessions.List(c.Context(), c.operator(), q)
	if err != nil {
		return nil, err
	}
	shown = slices.DeleteFunc(shown, func(one api.Session) bool { return f.Status != "" && one.Status != f.Status })
	return api.SessionPage{Sessions: shown, Next: next}, nil
}

// openSession answers with the session that waits for its node. A document is verified before anything is read from it.
func (c *call) openSession(q api.SessionAsk) (any, error) {
	if q.Signed == nil && q.Type == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "a session needs a type", `send {"type":"`+wire.SessionShell+`"}`)
	}
	v, err := c.Sessions.Open(c.Context(), c.operator(), session.Ask{Node: c.Named("node"), Type: q.Type, Params: q.Params,
		Signed: q.Signed})
	c.Created() // a refusal has its own
	return v, err
}

// session is the one that the path names, of the node that the path names, if it names one.
func (c *call) session() (api.Session, error) {
	id := c.Named("session")
	if err := wire.CheckSessionID(id); err != nil {
		return api.Session{}, err
	}
	v, err := c.Sessions.Get(c.Context(), c.operator(), id)
	if node := c.Named("node"); err == nil && node != "" && node != v.NodeID && node != v.Node {
		err = wire.Refuse(wire.CodeNotFound, fmt.Sprintf("node %.80q has no session %s", node, id), "muster session ls")
	}
	return v, err
}

func (c *call) showSession() (any, error) { return c.session() }

func (c *call) killSession() (any, error) {
	v, err := c.session()
	if err == nil {
		v, err = c.Sessions.Kill(c.Context(), c.operator(), v.ID, "")
	}
	return v, err
}

// piece reads which piece of which session a request is about. The service looks at whose session it is.
func (c *call) piece() (id string, channel int, q pipe.Query, err error) {
	p, err := c.Query(api.ParamChannel, pipe.ParamAt, pipe.ParamWait)
	if err != nil {
		return "", 0, q, err
	}
	number, err := p.Number(api.ParamChannel, 0, wire.MaxNumber)
	if err != nil {
		return "", 0, q, err
	}
	if q, err = pipe.ReadQuery(map[string][]string(p)); err != nil {
		return "", 0, q, wire.Refuse(wire.CodeBadRequest, err.Error(), "muster help protocol")
	}
	id = c.Named("session")
	return id, int(number), q, wire.CheckSessionID(id)
}

func (c *call) fetchPiece() (any, error) {
	id, channel, q, err := c.piece()
	if err != nil {
		return nil, err
	}
	p, err := c.Sessions.Fetch(c.Context(), c.operator(), id, channel, q.At, q.Wait)
	if err != nil {
		return nil, err
	}
	reply.WriteKind(c.W, http.StatusOK, pipe.Kind, p.Body())
	return streamed{}, nil
}

func (c *call) sendPiece() (any, error) {
	id, channel, q, err := c.piece()
	if err != nil {
		return nil, err
	}
	body, err := reply.ReadBody(c.W, c.Request, c.route.Body.Bytes, c.route.Body.Time)
	if err != nil {
		return nil, err
	}
	p, err := pipe.ReadPiece(body)
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, err.Error(), "muster and the gateway must be of the same protocol")
	}
	next, err := c.Sessions.Send(c.Context(), c.operator(), id, channel, q.At, p)
	var over *wire.ErrorDetail
	if errors.As(err, &over) && over.Code == wire.CodeSessionOver {
		c.Info.WriteError(c.W, err) // every session ends so at last: it is no refused write for the log
		return streamed{}, nil
	}
	return pipe.Taken{Next: next}, err
}

// watchSession sends what the terminal of a session shows, until it ends or until the caller may not watch it any more.
func (c *call) watchSession() (any, error) {
	v, err := c.session()
	if err != nil {
		return nil, err
	}
	watcher, err := c.Sessions.Watch(c.Context(), c.operator(), v.ID)
	if err != nil {
		return nil, err
	}
	defer watcher.Close()
	w := httpserver.Patient(c.W)
	reply.Begin(w, api.WatchKind).Set("X-Accel-Buffering", "no") // nginx would keep it back
	w.WriteHeader(http.StatusOK)
	return streamed{}, c.showWatched(w, watcher)
}

// showWatched sends what comes. Only shells have a terminal to watch.
func (c *call) showWatched(w http.ResponseWriter, watcher *session.Watcher) error {
	ctx, leave := c.admitted(func(who account.Caller) error { return who.Part(api.ScopeSessions, wire.OpenerShell) })
	defer leave(nil)
	flusher := http.NewResponseController(w)
	for {
		_ = flusher.Flush() // at first: the reader sees that it is let in
		frames, err := watcher.Next(ctx)
		if err != nil {
			return nil
		}
		if _, err := w.Write(frames); err != nil {
			return nil
		}
	}
}
