package join

import (
	"context"
	"fmt"
	"slices"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/trust"
)

// signedSets is what the gateway's signed sets say to an identity.
type signedSets struct {
	newest identity.Gateway // what the identity knows after it has followed the sets
	other  bool             // the sets are not those of the gateway that the identity knows
	former transport.Pins   // of all roots that the sets have named; this is not proven
}

func (j *joining) sets(ctx context.Context, state identity.State) (signedSets, error) {
	s := signedSets{newest: state.Gateway}
	client, err := transport.New(transport.Config{Gateway: j.Gateway, Version: j.Version, Timeout: j.Limit(reachTime / 2), Way: j.Way})
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

// dropFormerPin drops the given root pin where it is that of a former root of the gateway, and says so: a command that was kept and is
// run again has such a pin. It is not proven that the root was the gateway's, and it need not be: what the identity trusts does not
// change. With --force the pin counts, for it may name another gateway.
func (j *joining) dropFormerPin(ctx context.Context) (said string) {
	state, err := identity.Read(j.State)
	if err != nil || j.force || !j.Knows(state) || j.Fits(state.Gateway) {
		return ""
	}
	sets, err := j.sets(ctx, state)
	if err != nil || sets.other || j.Fits(sets.newest) || !slices.Contains(sets.former, *j.Pin) {
		return ""
	}
	said = fmt.Sprintf("the root pin %s is a former one of this gateway and is not looked at: this machine is enrolled, and goes by %s",
		j.Pin, transport.PinsOf(sets.newest.Roots))
	j.Pin = nil
	return said
}

// strange reports whether the gateway is not that of the identity, or not the one that the given pin names.
func (j *joining) strange(ctx context.Context, state identity.State) bool {
	sets, _ := j.sets(ctx, state)
	return sets.other || !j.Fits(sets.newest)
}

// checkPin is the error where the gateway of the identity does not have the given pin. Roots that this machine has not heard of yet count
// too.
func (j *joining) checkPin(ctx context.Context, state identity.State) error {
	if j.Fits(state.Gateway) {
		return nil
	}
	sets, err := j.sets(ctx, state)
	if err == nil && j.Fits(sets.newest) {
		return nil
	}
	why := ""
	if err != nil {
		why = fmt.Sprintf(" (its signed sets: %v)", err)
	}
	return fmt.Errorf("this machine is enrolled with %s, whose root is %s, and not the --root-pin %s%s: where that pin is an old one, "+
		"leave it out; where the gateway was set up anew, enrol there with a new token and --force",
		state.Gateway.URL, transport.PinsOf(sets.newest.Roots), j.Pin, why)
}
