package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/agent/internal/enroll"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/trust"
)

// A root pin is a word about the gateway from outside, for an enrolment. An identity has its own trust, which follows the
// gateway's signed sets to other roots: so no pin is kept, and none is held against an identity that is there.

// pinned is the pin that was given, as an enrolment takes it.
func (o *options) pinned() transport.Pins {
	if o.pin == nil {
		return nil
	}
	return transport.Pins{*o.pin}
}

// gatewayURL is the gateway in the form in which an identity remembers it.
func (o *options) gatewayURL() string {
	client, err := transport.New(transport.Config{Gateway: o.gateway})
	if err != nil {
		return o.gateway
	}
	return client.Gateway()
}

// knows reports whether an identity is one of the gateway that was named.
func (o *options) knows(state identity.State) bool {
	return state.Current != nil && state.Gateway.URL == o.gatewayURL()
}

// fits reports whether the pin that was given, if one was, is that of a root which an identity trusts.
func (o *options) fits(gateway identity.Gateway) bool {
	return o.pin == nil || slices.Contains(transport.PinsOf(gateway.Roots), *o.pin)
}

// pins are those that an enrolment goes by; own says that they are what the identity from before knew of this gateway. A pin
// that run was given stands in a unit or an entry point since the first enrolment, so the identity's roots are newer than
// it. One that join was given is a person's word of this moment.
func (a *foreground) pins(state identity.State) (pins transport.Pins, own bool) {
	if a.anew || !a.knows(state) || a.byHand && a.pin != nil {
		return a.pinned(), false
	}
	return transport.PinsOf(state.Gateway.Roots), true
}

// enrolKnowing enrols with a gateway, and where this machine slept while that one changed its roots, follows the signed sets
// from the ones that it knew.
func (a *foreground) enrolKnowing(ctx context.Context, state identity.State, c enroll.Config) (identity.State, error) {
	pins, own := a.pins(state)
	next, err := a.enrolPinned(ctx, state, c, pins)
	if !own || !errors.Is(err, enroll.ErrOtherRoot) && !errors.Is(err, transport.ErrUntrusted) {
		return next, err
	}
	state, failed := a.directory.Load() // with the key that was asked for
	if failed != nil {
		return state, failed
	}
	newer, news, failed := trust.Refresh(ctx, a.client, state)
	if failed == nil && news {
		return a.enrolPinned(ctx, newer, c, transport.PinsOf(newer.Gateway.Roots))
	}
	return next, fmt.Errorf("%w; this machine knew %s by those roots: where that gateway was set up anew, "+
		"join it with a new token and --force", err, a.gatewayURL())
}

func (a *foreground) enrolPinned(ctx context.Context, state identity.State, c enroll.Config, pins transport.Pins) (identity.State, error) {
	if err := a.newClient(transport.FirstContact{NeedTrust: c.Credential.Shared, Pins: pins}); err != nil {
		return state, err
	}
	c.Client, c.Pins = a.client, pins
	return enroll.Run(ctx, state, c)
}

// sets fetches the gateway's signed sets, and gives what an identity knows when it has followed them; other says that they
// are not those of the gateway that it knew.
func (j *joining) sets(ctx context.Context, state identity.State) (newest identity.Gateway, other bool, err error) {
	client, err := transport.New(transport.Config{Gateway: j.gateway, Version: version, Timeout: j.limit(reachTime / 2), Way: j.way})
	if err != nil {
		return state.Gateway, false, err
	}
	defer client.Close()
	document, err := client.FetchTrust(ctx)
	if err != nil {
		return state.Gateway, false, err
	}
	newest, _, err = trust.Follow(state.Gateway, document)
	return newest, err != nil || !trust.Holds(state.Gateway, document), err
}

// strange reports whether the gateway is not the one of the identity, or not the one that a person named by its pin.
func (j *joining) strange(ctx context.Context, state identity.State) bool {
	newest, other, _ := j.sets(ctx, state)
	return other || !j.fits(newest)
}

// checkPin refuses to go on with an identity whose gateway has not the pin that was asked for, not even among the roots that
// this machine has not heard of yet.
func (j *joining) checkPin(ctx context.Context, state identity.State) error {
	if j.fits(state.Gateway) {
		return nil
	}
	newest, _, err := j.sets(ctx, state)
	if err == nil && j.fits(newest) {
		return nil
	}
	why := ""
	if err != nil {
		why = fmt.Sprintf(" (its signed sets: %v)", err)
	}
	return fmt.Errorf("this machine is enrolled with %s, whose root is %s, and not the --root-pin %s%s: where that pin is an old one, "+
		"leave it out; where the gateway was set up anew, enrol there with a new token and --force",
		state.Gateway.URL, transport.PinsOf(newest.Roots), j.pin, why)
}
