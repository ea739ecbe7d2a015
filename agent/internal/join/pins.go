package join

import (
	"context"
	"fmt"
	"slices"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// signedSets is what the gateway's signed sets mean for an identity.
type signedSets struct {
	newest identity.Gateway // what the identity knows after it has followed the sets
	other  bool             // the sets are not those of the gateway that the identity knows
	former transport.Pins   // of all roots that the sets have ever named; nothing proves them
}

// sets fetches the signed sets from the gateway that was named, and follows them from what the identity knows.
func (j *joining) sets(ctx context.Context, state identity.State) (signedSets, error) {
	s := signedSets{newest: state.Gateway}
	client, err := j.client()
	if err != nil {
		return s, err
	}
	defer client.Close()
	document, err := client.FetchTrust(ctx)
	if err != nil {
		return s, err
	}
	s.newest, _, err = identity.FollowTrust(state.Gateway, document)
	s.other = err != nil || !identity.TrustHolds(state.Gateway, document)
	s.former = transport.PinsOf(identity.TrustRoots(document))
	return s, err
}

// dropFormerPin drops the given root pin where it names a former root of the gateway, and says so. A command that somebody kept and
// runs again has such a pin. Nothing proves that the root was the gateway's, and nothing needs to, because what the identity trusts
// does not change. With --force the pin counts, because it may name another gateway.
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

// strange reports whether the gateway is another one than that of the identity, or another one than the given pin names.
func (j *joining) strange(ctx context.Context, state identity.State) bool {
	sets, _ := j.sets(ctx, state)
	return sets.other || !j.Fits(sets.newest)
}

// checkPin is the error where the gateway of the identity does not have the given pin. It also accepts a root that the gateway's signed
// sets have added since this machine last looked.
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
