package command

import (
	"slices"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// A root pin is what a person says about the gateway for an enrolment. An identity has its own trust, which follows the gateway's
// signed sets to new roots. So no pin is stored, and no pin makes the agent refuse the identity that is here.

// Pinned returns the pins that were given, in the form that an enrolment takes.
func (o *Options) Pinned() transport.Pins {
	if o.Pin == nil {
		return nil
	}
	return transport.Pins{*o.Pin}
}

// GatewayURL returns the gateway in the form in which an identity remembers it.
func (o *Options) GatewayURL() string {
	client, err := transport.New(transport.Config{Gateway: o.Gateway})
	if err != nil {
		return o.Gateway
	}
	return client.Gateway()
}

// Knows reports whether an identity belongs to the gateway that was named.
func (o *Options) Knows(state identity.State) bool {
	return state.Current != nil && state.Gateway.URL == o.GatewayURL()
}

// Fits reports whether an identity trusts the root of the pin that was given. It is true if no pin was given.
func (o *Options) Fits(gateway identity.Gateway) bool {
	return o.Pin == nil || slices.Contains(transport.PinsOf(gateway.Roots), *o.Pin)
}

// Elsewhere reports whether an identity was made on another rented machine. It is false if one of the two instance ids is not known.
func (o *Options) Elsewhere(state identity.State) bool {
	return state.InstanceID != "" && o.InstanceID != "" && state.InstanceID != o.InstanceID
}
