package adminapi

import (
	"net/http"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release"
)

func (s *server) listReleases(c *call) (any, error) {
	all, err := s.Releases.Releases(c.r.Context())
	return api.ReleaseList{Releases: all}, err
}

func (s *server) showRelease(c *call) (any, error) {
	r, err := s.Releases.Release(c.r.Context(), c.r.PathValue("release"))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// addRelease makes a release. With a channel it also points that at it, in the usual waves. If that fails the release stays, and the
// same request again goes on.
func (s *server) addRelease(c *call, q api.NewRelease) (any, error) {
	if !wire.IsDigest(q.Digest) {
		return nil, wire.Refuse(wire.CodeBadRequest, "a release is named by the digest of its index", `send {"digest":"sha256:<64 hex digits>"}`)
	}
	if q.Channel != "" {
		if err := wire.CheckChannel(q.Channel); err != nil {
			return nil, err
		}
	}
	ctx := c.r.Context()
	r, err := s.Releases.Add(ctx, q, c.caller.Actor)
	if err != nil {
		return nil, err
	}
	c.status = http.StatusCreated
	if q.Channel == "" {
		return r, nil
	}
	plan := release.DefaultPlan()
	if _, err := s.Releases.Point(ctx, q.Channel, release.Promotion{Digest: r.Digest, Plan: &plan}, c.caller.Actor); err != nil {
		return nil, err
	}
	r, err = s.Releases.Release(ctx, r.Digest)
	return r, err
}

func (s *server) dropRelease(c *call) (any, error) {
	ctx := c.r.Context()
	r, err := s.Releases.Release(ctx, c.r.PathValue("release"))
	if err != nil {
		return nil, err
	}
	return api.Done{ID: r.Digest, Status: "dropped"}, s.Releases.Drop(ctx, r.Digest, c.caller.Actor)
}

func (s *server) listPins(c *call) (any, error) {
	ctx := c.r.Context()
	pins, err := s.Releases.Pins(ctx)
	for i := range pins {
		if pins[i].Node != "" {
			continue
		}
		if n, err := s.Fleet.Node(ctx, "", pins[i].NodeID); err == nil { // the release part knows only nodes that have enrolled
			pins[i].Node = n.Name
			pins[i].Tenant = n.Tenant
		}
	}
	return api.PinList{Pins: pins}, err
}

// addPins pins nodes. A release of their own is looked up first, so that its version will do.
func (s *server) addPins(c *call, q api.NewPins) (any, error) {
	refs, err := s.refs(c, q.Nodes)
	if err != nil {
		return nil, err
	}
	digest, err := s.digest(c, q.Digest)
	if err != nil {
		return nil, err
	}
	if err := s.Releases.Pin(c.r.Context(), refs, digest, q.Pointer, c.caller.Actor); err != nil {
		return nil, err
	}
	return s.listPins(c)
}

func (s *server) dropPins(c *call, q api.NewPins) (any, error) {
	if q.Digest != "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "the nodes follow their channel again, so there is no digest", "leave digest out")
	}
	refs, err := s.refs(c, q.Nodes)
	if err != nil {
		return nil, err
	}
	return api.Done{Status: "unpinned"}, s.Releases.Unpin(c.r.Context(), refs, q.Pointer, c.caller.Actor)
}

// dropPin ends the pin of one node.
func (s *server) dropPin(c *call) (any, error) {
	refs, err := s.refs(c, []string{c.r.PathValue("node")})
	if err != nil {
		return nil, err
	}
	return api.Done{ID: refs[0].ID, Status: "unpinned"}, s.Releases.Unpin(c.r.Context(), refs, nil, c.caller.Actor)
}

// mostPinned is how many nodes one request may pin.
const mostPinned = 10_000

// refs are the nodes that a request names.
func (s *server) refs(c *call, names []string) ([]release.Ref, error) {
	if len(names) == 0 || len(names) > mostPinned {
		return nil, wire.Refuse(wire.CodeBadRequest, "a request names one node or more, and at most 10,000", `send {"nodes":["NAME"]}`)
	}
	refs := make([]release.Ref, 0, len(names))
	for _, name := range names {
		n, err := s.Fleet.Node(c.r.Context(), c.caller.Tenant, name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, release.Ref{ID: n.ID, Name: n.Name, Tenant: n.Tenant})
	}
	return refs, nil
}
