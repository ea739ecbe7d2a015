package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// Releases lists all releases.
func (c *Client) Releases(ctx context.Context) (api.ReleaseList, error) {
	var list api.ReleaseList
	err := c.do(ctx, "GET", "node-agent-releases", nil, nil, &list)
	return list, err
}

// Release gives one, by its digest or version.
func (c *Client) Release(ctx context.Context, name string) (api.Release, error) {
	var r api.Release
	err := c.do(ctx, "GET", "node-agent-releases/"+url.PathEscape(name), nil, nil, &r)
	return r, err
}

// AddRelease makes a release. The same again changes nothing.
func (c *Client) AddRelease(ctx context.Context, q api.NewRelease) (api.Release, error) {
	var r api.Release
	err := c.do(ctx, "POST", "node-agent-releases", nil, q, &r)
	return r, err
}

// DropRelease takes a release off the record.
func (c *Client) DropRelease(ctx context.Context, digest string) error {
	return c.do(ctx, "DELETE", "node-agent-releases/"+url.PathEscape(digest), nil, nil, &api.Done{})
}

// Channels lists all channels.
func (c *Client) Channels(ctx context.Context) (api.ChannelList, error) {
	var list api.ChannelList
	err := c.do(ctx, "GET", "channels", nil, nil, &list)
	return list, err
}

// Channel gives one channel.
func (c *Client) Channel(ctx context.Context, name string) (api.Channel, error) {
	return c.channel(ctx, "GET", name, "", nil)
}

// Promote points a channel at a release.
func (c *Client) Promote(ctx context.Context, name string, p api.Promotion) (api.Channel, error) {
	return c.channel(ctx, "PATCH", name, "", p)
}

// RollBack points a channel at the release before the present one.
func (c *Client) RollBack(ctx context.Context, name string, p api.Promotion) (api.Channel, error) {
	return c.channel(ctx, "POST", name, "/rollback", p)
}

// PauseRollout lets no further node in until ResumeRollout.
func (c *Client) PauseRollout(ctx context.Context, name string) (api.Channel, error) {
	return c.channel(ctx, "POST", name, "/pause", struct{}{})
}

// ResumeRollout goes on, and accepts the nodes that have failed so far.
func (c *Client) ResumeRollout(ctx context.Context, name string) (api.Channel, error) {
	return c.channel(ctx, "POST", name, "/resume", struct{}{})
}

// AbortRollout ends a rollout. The nodes that have its release get the one before.
func (c *Client) AbortRollout(ctx context.Context, name string, p api.Promotion) (api.Channel, error) {
	return c.channel(ctx, "POST", name, "/abort", p)
}

func (c *Client) channel(ctx context.Context, method, name, verb string, in any) (api.Channel, error) {
	var channel api.Channel
	err := c.do(ctx, method, "channels/"+url.PathEscape(name)+verb, nil, in, &channel)
	return channel, err
}

// Pointer gives what has to be signed so that a channel can point at a release next; empty: at the one before the present one.
func (c *Client) Pointer(ctx context.Context, channel, release string) (api.UnsignedPointer, error) {
	q := url.Values{}
	set(q, "digest", release)
	var p api.UnsignedPointer
	err := c.do(ctx, "GET", "channels/"+url.PathEscape(channel)+"/pointer", q, nil, &p)
	return p, err
}

// ChannelNodes gives one page of a channel's nodes.
func (c *Client) ChannelNodes(ctx context.Context, channel string, f api.ChannelNodeFilter) (api.ChannelNodes, error) {
	q := url.Values{}
	set(q, "state", f.State)
	set(q, "phase", f.Phase)
	set(q, "cursor", f.Cursor)
	setNumber(q, "limit", int64(f.Limit))
	var page api.ChannelNodes
	err := c.do(ctx, "GET", "channels/"+url.PathEscape(channel)+"/nodes", q, nil, &page)
	return page, err
}

// Pins lists the pinned nodes.
func (c *Client) Pins(ctx context.Context) (api.PinList, error) {
	var list api.PinList
	err := c.do(ctx, "GET", "pins", nil, nil, &list)
	return list, err
}

// Pin keeps nodes from following their channel.
func (c *Client) Pin(ctx context.Context, q api.NewPins) (api.PinList, error) {
	var list api.PinList
	err := c.do(ctx, "POST", "pins", nil, q, &list)
	return list, err
}

// Unpin lets nodes follow their channel again.
func (c *Client) Unpin(ctx context.Context, q api.NewPins) error {
	return c.do(ctx, "POST", "pins/drop", nil, q, &api.Done{})
}
