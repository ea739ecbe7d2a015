package client

import (
	"context"
	"encoding/json"
	"net/url"

	"muster/gateway/api"
)

// Nodes gives one page.
func (c *Client) Nodes(ctx context.Context, f api.NodeFilter) (api.NodeRows, error) {
	q := url.Values{}
	set(q, "selector", f.Selector)
	set(q, "status", f.Status)
	set(q, "state", f.State)
	set(q, "cursor", f.Cursor)
	setIf(q, "all", f.All)
	setNumber(q, "limit", int64(f.Limit))
	var rows api.NodeRows
	err := c.do(ctx, "GET", "nodes", q, nil, &rows)
	return rows, err
}

// pageSize is how many nodes are fetched at a time.
const pageSize = 500

// EachPage calls use with every page of the nodes that the filter picks.
func (c *Client) EachPage(ctx context.Context, f api.NodeFilter, use func(api.NodeRows) error) error {
	f.Limit = pageSize
	for {
		rows, err := c.Nodes(ctx, f)
		if err != nil {
			return err
		}
		if err := use(rows); err != nil || rows.Next == "" {
			return err
		}
		f.Cursor = rows.Next
	}
}

// EachNode calls use with every node that the filter picks.
func (c *Client) EachNode(ctx context.Context, f api.NodeFilter, use func(api.Node) error) error {
	return c.EachPage(ctx, f, func(page api.NodeRows) error {
		for _, raw := range page.Nodes {
			n, err := api.ReadNode(raw)
			if err == nil {
				err = use(n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Node gives one node by name or id, as the gateway sent it.
func (c *Client) Node(ctx context.Context, node string) (json.RawMessage, error) {
	var row json.RawMessage
	err := c.do(ctx, "GET", "nodes/"+url.PathEscape(node), nil, nil, &row)
	return row, err
}

// Apply moves a node; verb is drain, resume, retire or ban.
func (c *Client) Apply(ctx context.Context, node, verb string) (api.Node, error) {
	var n api.Node
	err := c.do(ctx, "POST", "nodes/"+url.PathEscape(node)+"/"+url.PathEscape(verb), nil, struct{}{}, &n)
	return n, err
}

// SetLabels sets and removes labels of a node as the operator.
func (c *Client) SetLabels(ctx context.Context, node string, q api.LabelsRequest) (api.Node, error) {
	var n api.Node
	err := c.do(ctx, "POST", "nodes/"+url.PathEscape(node)+"/labels", nil, q, &n)
	return n, err
}

// PatchNode changes what is on record of a node.
func (c *Client) PatchNode(ctx context.Context, node string, q api.NodePatch) (api.Node, error) {
	var n api.Node
	err := c.do(ctx, "PATCH", "nodes/"+url.PathEscape(node), nil, q, &n)
	return n, err
}
