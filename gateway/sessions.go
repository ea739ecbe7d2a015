package main

import (
	"context"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/gateway/internal/task"
	"muster/store"
)

// openSessions opens the service of live sessions. Nodes get their documents through the wait for tasks.
func (g *gateway) openSessions(ctx context.Context) error {
	var err error
	g.sessions, err = session.New(ctx, session.Config{
		Store: g.store, Sign: g.authority.SignTask, Keys: g.authority.TaskKeys, Ref: g.fleet.Ref, Still: g.mayStill, Ring: g.tasks.Ring,
		Record: g.recorder(), Idle: g.settings.sessionIdle, Limit: g.settings.sessionLimit, Logger: g.log, CountAgain: g.audit.Repeated,
	})
	return err
}

// recorder begins to record a shell; nil: none are recorded.
func (g *gateway) recorder() func(recording.Meta) (session.Tape, error) {
	if !g.settings.recordings.shells {
		return nil
	}
	return func(m recording.Meta) (session.Tape, error) { return g.recordings.Begin(m) }
}

// sessionFor gives the document of a session that waits for a node.
func (g *gateway) sessionFor(c task.Claimer) *wire.SignedTask {
	return g.sessions.Aside(session.Claimer{NodeID: c.NodeID, Enrolment: c.Enrolment, Fingerprint: c.Fingerprint, Generation: c.Generation,
		Address: c.Address})
}

// endSessions ends those whose node or account is not what it was.
func (g *gateway) endSessions(ctx context.Context, events []store.Event) {
	g.sessions.Take(ctx, events)
}

// mayStill refuses an account that may not have a session any more.
func (g *gateway) mayStill(ctx context.Context, id, opener string) error {
	a, err := g.store.Account(ctx, id)
	if err != nil {
		return err
	}
	if status := account.Status(a, time.Now()); status != api.StatusLive {
		return wire.Refuse(wire.CodeUnauthorized, "the account is "+status, "use another one")
	}
	return account.Caller{Scopes: a.Scopes}.Part(api.ScopeSessions, opener)
}
