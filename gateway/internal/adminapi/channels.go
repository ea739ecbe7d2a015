package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release"
	"muster/store"
)

func (s *server) listChannels(c *call) (any, error) {
	all, err := s.Releases.Channels(c.r.Context())
	return api.ChannelList{Channels: all}, err
}

func (s *server) showChannel(c *call) (any, error) {
	return s.Releases.Channel(c.r.Context(), c.channel())
}

// channel is the one that the path names.
func (c *call) channel() string { return c.r.PathValue("channel") }

// digest is that of the release that a digest or a version names; "": none is named.
func (s *server) digest(c *call, release string) (string, error) {
	if release == "" {
		return "", nil
	}
	r, err := s.Releases.Release(c.r.Context(), release)
	return r.Digest, err
}

// patchChannel points a channel at a release, which its version names too.
func (s *server) patchChannel(c *call, q api.Promotion) (any, error) {
	if q.Digest == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "a channel needs a release to point at", `send {"digest":"sha256:<64 hex digits>"}`)
	}
	usual := release.DefaultPlan()
	plan, err := planOf(q.Wave, &usual)
	if err != nil {
		return nil, err
	}
	digest, err := s.digest(c, q.Digest)
	if err != nil {
		return nil, err
	}
	p := release.Promotion{Digest: digest, Plan: plan, Pointer: q.Pointer, Seen: q.Seen}
	return s.Releases.Point(c.r.Context(), c.channel(), p, c.caller.Actor)
}

// rollbackChannel goes back to the release before, or to the one that the request names, at once unless it asks for waves.
func (s *server) rollbackChannel(c *call, q api.Promotion) (any, error) {
	plan, err := planOf(q.Wave, nil)
	if err != nil {
		return nil, err
	}
	digest, err := s.digest(c, q.Digest)
	if err != nil {
		return nil, err
	}
	p := release.Promotion{Digest: digest, Plan: plan, Pointer: q.Pointer, Seen: q.Seen}
	return s.Releases.Rollback(c.r.Context(), c.channel(), p, c.caller.Actor)
}

func (s *server) abortChannel(c *call, q api.Promotion) (any, error) {
	p := release.Promotion{Pointer: q.Pointer, Seen: q.Seen}
	return s.Releases.Abort(c.r.Context(), c.channel(), p, c.caller.Actor)
}

// steers is the handler of a change of a rollout that needs nothing but the channel.
func steers(do func(*release.Service, context.Context, string, store.Actor) (api.Channel, error)) func(*server, *call) (any, error) {
	return takes(func(s *server, c *call, _ struct{}) (any, error) {
		return do(s.Releases, c.r.Context(), c.channel(), c.caller.Actor)
	})
}

// planOf reads the member wave. If it is not there the plan is the usual one; null lets all nodes in at once. A wave that leaves out
// how long to wait, or how many may fail, has the usual values there.
func planOf(wave json.RawMessage, usual *release.Plan) (*release.Plan, error) {
	switch {
	case len(wave) == 0:
		return usual, nil
	case bytes.Equal(wave, api.AllAtOnce()):
		return nil, nil
	}
	var w api.Waves
	if err := sign.DecodeStrict(wave, &w); err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, "the wave cannot be read: "+err.Error(),
			`such as {"canary":"1","steps":["25%","100%"],"soak_seconds":600,"max_failed":"10%"}, or null for all nodes at once`)
	}
	plan := release.DefaultPlan()
	plan.Canary = w.Canary
	plan.Steps = w.Steps
	plan.GoBack = w.GoBack
	if w.SoakSeconds != nil {
		plan.SoakSeconds = *w.SoakSeconds
	}
	if w.MaxFailed != "" {
		plan.MaxFailed = w.MaxFailed
	}
	return &plan, nil
}

func (s *server) channelPointer(c *call, f api.PointerFilter) (any, error) {
	digest, err := s.digest(c, f.Release)
	if err != nil {
		return nil, err
	}
	payload, err := s.Releases.Unsigned(c.r.Context(), c.channel(), digest)
	return api.UnsignedPointer{Payload: payload}, err
}

// channelNodes is one page of a channel's nodes. The cursor is the name of the last node of the page before.
func (s *server) channelNodes(c *call, f api.ChannelNodeFilter) (any, error) {
	if phases := wire.UpdatePhases(); f.Phase != "" && !slices.Contains(phases, f.Phase) {
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no phase of an update", f.Phase),
			"it is one of "+strings.Join(phases, ", "))
	}
	now, err := s.Releases.Status(c.r.Context(), c.channel())
	if err != nil {
		return nil, err
	}
	nodes := slices.DeleteFunc(now.Nodes, func(n api.ChannelNode) bool {
		return f.Phase != "" && n.Phase != f.Phase || f.State != "" && n.State != f.State
	})
	slices.SortFunc(nodes, func(a, b api.ChannelNode) int { return strings.Compare(placeOf(a), placeOf(b)) })
	out := api.ChannelNodes{Total: len(nodes), Nodes: []api.ChannelNode{}}
	at, there := slices.BinarySearchFunc(nodes, f.Cursor, func(n api.ChannelNode, cursor string) int {
		return strings.Compare(placeOf(n), cursor)
	})
	if there {
		at++
	}
	page := nodes[at:]
	if len(page) > f.Limit {
		page = page[:f.Limit]
		out.Next = placeOf(page[f.Limit-1])
	}
	out.Nodes = page
	return out, nil
}

// placeOf orders nodes by name. Nodes of two tenants may have one name.
func placeOf(n api.ChannelNode) string { return n.Name + "/" + n.ID }
