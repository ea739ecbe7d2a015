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
	"muster/gateway/internal/adminapi/row"
	"muster/gateway/internal/release"
	"muster/store"
)

func (c *call) listChannels() (any, error) {
	all, err := c.Releases.Channels(c.Context())
	return api.ChannelList{Channels: all}, err
}

func (c *call) showChannel() (any, error) {
	return c.Releases.Channel(c.Context(), c.channel())
}

// channel is the one that the path names.
func (c *call) channel() string { return c.Named("channel") }

// digest is that of the release that a digest or a version names; "": none is named.
func (c *call) digest(release string) (string, error) {
	if release == "" {
		return "", nil
	}
	r, err := c.Releases.Release(c.Context(), release)
	return r.Digest, err
}

// patchChannel points a channel at a release, which its version names too.
func (c *call) patchChannel(q api.Promotion) (any, error) {
	if q.Digest == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "a channel needs a release to point at", `send {"digest":"sha256:<64 hex digits>"}`)
	}
	usual := release.DefaultPlan()
	plan, err := planOf(q.Wave, &usual)
	if err != nil {
		return nil, err
	}
	digest, err := c.digest(q.Digest)
	if err != nil {
		return nil, err
	}
	p := release.Promotion{Digest: digest, Plan: plan, Pointer: q.Pointer, Seen: q.Seen}
	return c.Releases.Point(c.Context(), c.channel(), p, c.Caller.Actor)
}

// rollbackChannel goes back to the previous release, or to the one that the request names, at once unless it asks for waves.
func (c *call) rollbackChannel(q api.Promotion) (any, error) {
	plan, err := planOf(q.Wave, nil)
	if err != nil {
		return nil, err
	}
	digest, err := c.digest(q.Digest)
	if err != nil {
		return nil, err
	}
	p := release.Promotion{Digest: digest, Plan: plan, Pointer: q.Pointer, Seen: q.Seen}
	return c.Releases.Rollback(c.Context(), c.channel(), p, c.Caller.Actor)
}

func (c *call) abortChannel(q api.Promotion) (any, error) {
	p := release.Promotion{Pointer: q.Pointer, Seen: q.Seen}
	return c.Releases.Abort(c.Context(), c.channel(), p, c.Caller.Actor)
}

// steers is the handler of a change of a rollout that needs nothing but the channel.
func steers(do func(*release.Service, context.Context, string, store.Actor) (api.Channel, error)) func(*call) (any, error) {
	return row.Reads(func(c *call, _ struct{}) (any, error) {
		return do(c.Releases, c.Context(), c.channel(), c.Caller.Actor)
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

func (c *call) channelPointer(f api.PointerFilter) (any, error) {
	digest, err := c.digest(f.Release)
	if err != nil {
		return nil, err
	}
	payload, err := c.Releases.Unsigned(c.Context(), c.channel(), digest)
	return api.UnsignedPointer{Payload: payload}, err
}

// channelNodes is one page of a channel's nodes. The cursor is the name of the last node of the previous page.
func (c *call) channelNodes(f api.ChannelNodeFilter) (any, error) {
	if phases := wire.UpdatePhases(); f.Phase != "" && !slices.Contains(phases, f.Phase) {
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no phase of an update", f.Phase),
			"it is one of "+strings.Join(phases, ", "))
	}
	now, err := c.Releases.Status(c.Context(), c.channel())
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
