package adminapi

import (
	"context"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/adminapi/row"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// call is one request that the gate let in, for its handler.
type call struct {
	*row.Call
	*server
	route Route
}

// serve runs the route's handler. The name of a channel in the path is one, or the handler does not run.
func (c *call) serve() (any, error) {
	if strings.Contains(c.route.Path, "{channel}") {
		if err := wire.CheckChannel(c.channel()); err != nil {
			return nil, err
		}
	}
	return c.route.serve(c)
}

// body reads the body. One that shows the cluster's PSK is refused where the route does not take it.
func (c *call) body() ([]byte, error) {
	body, err := reply.ReadBody(c.W, c.Request, c.route.Body.Bytes, c.route.Body.Time)
	if err == nil && !c.route.Body.PSK && c.showsPSK(body) {
		err = account.PlainPSK("stands in what this would keep and show")
	}
	return body, err
}

// showsPSK is true if one of the body's texts is or holds the cluster's PSK.
func (c *call) showsPSK(body []byte) bool {
	return slices.ContainsFunc(secret.Texts(body, 1), secret.HasPSK) || c.Bootstrap.PSKInBody(c.Context(), body) != ""
}

// event begins a security event about what the caller does.
func (c *call) event(kind string) store.Event {
	return store.Event{At: c.now(), Kind: kind, Actor: c.Caller.Actor.Name, Address: c.Caller.Actor.Address, Outcome: store.OutcomeOK,
		Security: true}
}

// again has the gate look at the request once more. An answer that goes on was begun for one tenant: it ends if the account is for another
// one by now.
func (c *call) again() (account.Caller, error) {
	who, err := c.Gate.Admit(c.Request, c.route.Need)
	if err == nil && who.Tenant != c.Caller.Tenant {
		err = wire.Refuse(wire.CodeForbidden, "this account is for another tenant now", "ask again")
	}
	return who, err
}

// admitted is a context for an answer that may take long. It ends when the caller may not call the route any more, or lacks what may asks
// for; nil: it asks for nothing. The caller calls leave.
func (c *call) admitted(may func(account.Caller) error) (ctx context.Context, leave context.CancelCauseFunc) {
	ctx, leave = context.WithCancelCause(c.Context())
	go func() {
		leave(livestream.Guard(ctx, c.Tail, func() error {
			who, err := c.again()
			if err == nil && may != nil {
				err = may(who)
			}
			return err
		}))
	}()
	return ctx, leave
}
