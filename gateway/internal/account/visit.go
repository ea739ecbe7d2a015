package account

import (
	"context"

	"muster/agent/wire"
	"muster/store"
)

// Visit is who calls from within this process. Another part of it has found that out: the console, by a session.
type Visit struct {
	AccountID string
	Address   string // as events shall show it
}

// visitor marks the context of such a call. No request from outside has it: nothing that a request can say gets into its context.
type visitor struct{}

// Enter marks the context: calls with it are made as this visitor. Only a gate with Config.Within accepts them.
func Enter(ctx context.Context, v Visit) context.Context { return context.WithValue(ctx, visitor{}, v) }

// within finds out who calls from within this process. The account is looked up for each call, so that it can end at any time.
func (g *Gate) within(ctx context.Context) (Caller, error) {
	who := Caller{Actor: store.Actor{Name: "unknown"}}
	visit, ok := ctx.Value(visitor{}).(Visit)
	if !ok {
		return who, wire.Refuse(wire.CodeUnauthorized, "nobody has logged in", "log in again")
	}
	who.Actor.Address = visit.Address
	return g.known(ctx, who, visit.AccountID, "session")
}

// Of returns what an account may do, for code that asks before a call is made.
func Of(a store.Account) Caller {
	return Caller{Actor: store.Actor{Name: ActorName(a)}, Account: a, Tenant: a.Tenant, Scopes: a.Scopes}
}
