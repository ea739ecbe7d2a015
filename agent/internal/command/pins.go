package command

import (
	"context"
	"errors"
	"fmt"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// pins are the root pins that an enrolment uses. own says that they are those of the roots that the identity from before trusts. The
// identity's roots win over a pin that run was given: that pin has stood in a unit or an entry point since the first enrolment, and the
// roots are newer. A pin that join was given wins over the identity's roots, because a person gives it now.
func (a *Applicant) pins(state identity.State) (pins transport.Pins, own bool) {
	if a.Anew || !a.Knows(state) || a.ByHand && a.Pin != nil {
		return a.Pinned(), false
	}
	return transport.PinsOf(state.Gateway.Roots), true
}

// enrolKnowing enrols, and uses what this machine knows of the gateway. The gateway may have changed its roots while this machine was
// off. Then the agent follows the signed sets from the roots that it knows to the new ones, and enrols with those.
func (a *Applicant) enrolKnowing(ctx context.Context, state identity.State, c identity.Enrolment) (identity.State, error) {
	pins, own := a.pins(state)
	if !own {
		return a.enrolPinned(ctx, state, c, pins)
	}
	known := state.Gateway
	if identity.TrustNumber(known) > 0 {
		c.Known = &known
	}
	next, err := a.enrolPinned(ctx, state, c, pins)
	if stranger(err) {
		if newer, news := a.newer(ctx); news {
			next, err = a.enrolPinned(ctx, newer, c, transport.PinsOf(newer.Gateway.Roots))
		}
	}
	if !stranger(err) {
		return next, err
	}
	return next, fmt.Errorf("%w; this machine knows %s by %s: where that gateway was set up anew, "+
		"join it with a new token and --force", err, a.GatewayURL(), pins)
}

// newer is what this machine knows after it has followed the gateway's signed sets. news says that they brought something.
func (a *Applicant) newer(ctx context.Context) (next identity.State, news bool) {
	state, err := a.Directory.Load() // it has the key that the failed enrolment made, which the next attempt must use
	if err != nil {
		return state, false
	}
	next, news, err = identity.RefreshTrust(ctx, a.Client, state)
	return next, err == nil && news
}

// stranger reports whether an enrolment ended because the gateway is not the one that it should be.
func stranger(err error) bool {
	return errors.Is(err, identity.ErrOtherRoot) || errors.Is(err, identity.ErrNotContinued) || errors.Is(err, transport.ErrUntrusted)
}

// enrolPinned enrols with a gateway that has one of these roots. A pre-shared key needs that, because its handshake does not prove which
// gateway it is.
func (a *Applicant) enrolPinned(
	ctx context.Context, state identity.State, c identity.Enrolment, pins transport.Pins,
) (identity.State, error) {
	if err := a.Connect(transport.FirstContact{NeedTrust: c.Credential.Shared, Pins: pins}); err != nil {
		return state, err
	}
	c.Client = a.Client
	c.Pins = pins
	return identity.Enrol(ctx, state, c)
}
