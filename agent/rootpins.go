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
	if !own {
		return a.enrolPinned(ctx, state, c, pins)
	}
	known := state.Gateway
	if trust.Number(known) > 0 {
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
		"join it with a new token and --force", err, a.gatewayURL(), pins)
}

// newer is what this machine knows when it has followed the gateway's signed sets; news says that they brought any.
func (a *foreground) newer(ctx context.Context) (next identity.State, news bool) {
	state, err := a.directory.Load() // with the key that was asked for
	if err != nil {
		return state, false
	}
	next, news, err = trust.Refresh(ctx, a.client, state)
	return next, err == nil && news
}

// stranger reports whether an enrolment ended because the gateway is not the one that it was to be.
func stranger(err error) bool {
	return errors.Is(err, enroll.ErrOtherRoot) || errors.Is(err, enroll.ErrNotContinued) || errors.Is(err, transport.ErrUntrusted)
}

func (a *foreground) enrolPinned(ctx context.Context, state identity.State, c enroll.Config, pins transport.Pins) (identity.State, error) {
	if err := a.newClient(transport.FirstContact{NeedTrust: c.Credential.Shared, Pins: pins}); err != nil {
		return state, err
	}
	c.Client, c.Pins = a.client, pins
	return enroll.Run(ctx, state, c)
}

// signedSets is what the gateway's signed sets say about what an identity knows.
type signedSets struct {
	newest identity.Gateway // what it knows when it has followed them
	other  bool             // they are not those of the gateway that it knew
	former transport.Pins   // of all the roots that they ever named; nobody vouches for these
}

func (j *joining) sets(ctx context.Context, state identity.State) (signedSets, error) {
	s := signedSets{newest: state.Gateway}
	client, err := transport.New(transport.Config{Gateway: j.gateway, Version: version, Timeout: j.limit(reachTime / 2), Way: j.way})
	if err != nil {
		return s, err
	}
	defer client.Close()
	document, err := client.FetchTrust(ctx)
	if err != nil {
		return s, err
	}
	s.newest, _, err = trust.Follow(state.Gateway, document)
	s.other = err != nil || !trust.Holds(state.Gateway, document)
	s.former = transport.PinsOf(trust.Roots(document))
	return s, err
}

// dropFormerPin stops looking at a pin of a root that the gateway has had and that this machine's identity has outlived, as
// it stands in a command that is kept and run again, and says so. That a root was the gateway's once is not proven, and need
// not be: what the identity trusts does not change by it. With --force the pin may name another gateway, and counts.
func (j *joining) dropFormerPin(ctx context.Context) (said string) {
	state, err := identity.Read(j.state)
	if err != nil || j.force || !j.knows(state) || j.fits(state.Gateway) {
		return ""
	}
	sets, err := j.sets(ctx, state)
	if err != nil || sets.other || j.fits(sets.newest) || !slices.Contains(sets.former, *j.pin) {
		return ""
	}
	said = fmt.Sprintf("the root pin %s is a former one of this gateway and is not looked at: this machine is enrolled, and goes by %s",
		j.pin, transport.PinsOf(sets.newest.Roots))
	j.pin = nil
	return said
}

// strange reports whether the gateway is not the one of the identity, or not the one that a person named by its pin.
func (j *joining) strange(ctx context.Context, state identity.State) bool {
	sets, _ := j.sets(ctx, state)
	return sets.other || !j.fits(sets.newest)
}

// checkPin refuses to go on with an identity whose gateway has not the pin that was asked for, not even among the roots that
// this machine has not heard of yet.
func (j *joining) checkPin(ctx context.Context, state identity.State) error {
	if j.fits(state.Gateway) {
		return nil
	}
	sets, err := j.sets(ctx, state)
	if err == nil && j.fits(sets.newest) {
		return nil
	}
	why := ""
	if err != nil {
		why = fmt.Sprintf(" (its signed sets: %v)", err)
	}
	return fmt.Errorf("this machine is enrolled with %s, whose root is %s, and not the --root-pin %s%s: where that pin is an old one, "+
		"leave it out; where the gateway was set up anew, enrol there with a new token and --force",
		state.Gateway.URL, transport.PinsOf(sets.newest.Roots), j.pin, why)
}
