package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release"
)

func (c *call) listReleases() (any, error) {
	all, err := c.Releases.Releases(c.Context())
	return api.ReleaseList{Releases: all}, err
}

func (c *call) showRelease() (any, error) {
	r, err := c.Releases.Release(c.Context(), c.Named("release"))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// addRelease makes a release. With a channel it also points that at it, in the usual waves. If that fails the release stays, and the
// same request again goes on.
func (c *call) addRelease(q api.NewRelease) (any, error) {
	if !wire.IsDigest(q.Digest) {
		return nil, wire.Refuse(wire.CodeBadRequest, "a release is named by the digest of its index", `send {"digest":"sha256:<64 hex digits>"}`)
	}
	if q.Channel != "" {
		if err := wire.CheckChannel(q.Channel); err != nil {
			return nil, err
		}
	}
	ctx := c.Context()
	r, err := c.Releases.Add(ctx, q, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	c.Created()
	if q.Channel == "" {
		return r, nil
	}
	plan := release.DefaultPlan()
	if _, err := c.Releases.Point(ctx, q.Channel, release.Promotion{Digest: r.Digest, Plan: &plan}, c.Caller.Actor); err != nil {
		return nil, err
	}
	r, err = c.Releases.Release(ctx, r.Digest)
	return r, err
}

func (c *call) dropRelease() (any, error) {
	ctx := c.Context()
	r, err := c.Releases.Release(ctx, c.Named("release"))
	if err != nil {
		return nil, err
	}
	return api.Done{ID: r.Digest, Status: "dropped"}, c.Releases.Drop(ctx, r.Digest, c.Caller.Actor)
}

func (c *call) listPins() (any, error) {
	ctx := c.Context()
	pins, err := c.Releases.Pins(ctx)
	for i := range pins {
		if pins[i].Node != "" {
			continue
		}
		if n, err := c.Fleet.Node(ctx, "", pins[i].NodeID); err == nil { // the release part knows only nodes that have enrolled
			pins[i].Node = n.Name
			pins[i].Tenant = n.Tenant
		}
	}
	return api.PinList{Pins: pins}, err
}

// addPins pins nodes. A release of their own is looked up first, so that its version will do.
func (c *call) addPins(q api.NewPins) (any, error) {
	refs, err := c.refs(q.Nodes)
	if err != nil {
		return nil, err
	}
	digest, err := c.digest(q.Digest)
	if err != nil {
		return nil, err
	}
	if err := c.Releases.Pin(c.Context(), refs, digest, q.Pointer, c.Caller.Actor); err != nil {
		return nil, err
	}
	return c.listPins()
}

func (c *call) dropPins(q api.NewPins) (any, error) {
	if q.Digest != "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "the nodes follow their channel again, so there is no digest", "leave digest out")
	}
	refs, err := c.refs(q.Nodes)
	if err != nil {
		return nil, err
	}
	return api.Done{Status: "unpinned"}, c.Releases.Unpin(c.Context(), refs, q.Pointer, c.Caller.Actor)
}

// dropPin ends the pin of one node.
func (c *call) dropPin() (any, error) {
	refs, err := c.refs([]string{c.Named("node")})
	if err != nil {
		return nil, err
	}
	return api.Done{ID: refs[0].ID, Status: "unpinned"}, c.Releases.Unpin(c.Context(), refs, nil, c.Caller.Actor)
}

// mostPinned is how many nodes one request may pin.
const mostPinned = 10_000

// refs are the nodes that a request names.
func (c *call) refs(names []string) ([]release.Ref, error) {
	if len(names) == 0 || len(names) > mostPinned {
		return nil, wire.Refuse(wire.CodeBadRequest, "a request names one node or more, and at most 10,000", `send {"nodes":["NAME"]}`)
	}
	refs := make([]release.Ref, 0, len(names))
	for _, name := range names {
		n, err := c.Fleet.Node(c.Context(), c.Caller.Tenant, name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, release.Ref{ID: n.ID, Name: n.Name, Tenant: n.Tenant})
	}
	return refs, nil
}
