package nodeapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/session"
)

// sessionRoutes are those over which the bytes of sessions travel. {session} is the session; the node that has taken it alone may name it.
func (a *API) sessionRoutes() []Route {
	if a.Sessions == nil {
		return nil
	}
	path := wire.SessionChannelPath("{session}", "{channel}")
	return []Route{
		{Method: "GET", Path: path, Proof: Identity, Purpose: fleet.ForAnything, Node: a.sessionFetch},
		{Method: "POST", Path: path, Proof: Identity, Purpose: fleet.ForAnything, MaxBody: pipe.MaxBody, BodyTime: pieceTime,
			Node: a.sessionSend},
	}
}

// Bytes is an answer that is not JSON, and small enough for the memory.
type Bytes struct {
	Kind string // its Content-Type
	Data []byte
}

func (a *API) sessionFetch(ctx context.Context, c Call) (any, error) {
	if c.request.Method == http.MethodHead {
		return nil, wire.Refuse(wire.CodeMethodNotAllowed, "a session cannot be looked at, only read", "use GET")
	}
	channel, q, err := pieceOf(c.request)
	if err != nil {
		return nil, err
	}
	p, err := a.Sessions.NodeFetch(ctx, sessionClaimer(c), c.request.PathValue("session"), channel, q.At, q.Wait)
	if err != nil {
		return nil, err
	}
	return Bytes{Kind: pipe.Kind, Data: p.Body()}, nil
}

func (a *API) sessionSend(ctx context.Context, c Call) (any, error) {
	channel, q, err := pieceOf(c.request)
	if err != nil {
		return nil, err
	}
	p, err := pipe.ReadPiece(c.Body)
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, err.Error(), "agent and gateway must be of the same protocol")
	}
	next, err := a.Sessions.NodeSend(ctx, sessionClaimer(c), c.request.PathValue("session"), channel, q.At, p)
	return pipe.Taken{Next: next}, err
}

// pieceOf reads which piece a request is about.
func pieceOf(r *http.Request) (channel int, q pipe.Query, err error) {
	channel, wrong := strconv.Atoi(r.PathValue("channel"))
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil {
		q, err = pipe.ReadQuery(values)
	}
	if err == nil {
		err = wrong
	}
	if err != nil || channel < 0 {
		return 0, q, wire.Refuse(wire.CodeBadRequest, "the request does not say which piece it is about",
			pipe.ParamAt+"= a number of bytes; the channel is a number")
	}
	return channel, q, wire.CheckSessionID(r.PathValue("session"))
}

func sessionClaimer(c Call) session.Claimer {
	return session.Claimer{NodeID: c.Identity.NodeID, Enrolment: c.Identity.Enrolment, Fingerprint: c.Identity.Fingerprint,
		Generation: c.Identity.Generation, Address: c.Proof.Address}
}
