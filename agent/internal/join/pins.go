package join

import (
	"context"
	"fmt"
	"slices"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/trust"
)

// signedSets is what the gateway's signed sets say about what an identity knows.
type signedSets struct {
	newest identity.Gateway // what it knows when it has followed them
	other  bool             // they are not those of the gateway that it knew
	former transport.Pins   // of all the roots that they ever named; nobody vouches for these
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

// dropFormerPin stops looking at a pin of a root that the gateway has had and that this machine's identity has outlived, as
// it stands in a command that is kept and run again, and says so. That a root was the gateway's once is not proven, and need
// not be: what the identity trusts does not change by it. With --force the pin may name another gateway, and counts.
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

// strange reports whether the gateway is not the one of the identity, or not the one that a person named by its pin.
func (j *joining) strange(ctx context.Context, state identity.State) bool {
	sets, _ := j.sets(ctx, state)
	return sets.other || !j.Fits(sets.newest)
}

// checkPin refuses to go on with an identity whose gateway has not the pin that was asked for, not even among the roots that
// this machine has not heard of yet.
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
