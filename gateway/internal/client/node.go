package client

import (
	"context"

	"muster/gateway/api"
)

// pageSize is how many nodes are fetched at a time.
const pageSize = 500

// EachPage calls use with every page of the nodes that the filter picks.
func (c *Client) EachPage(ctx context.Context, f api.NodeFilter, use func(api.NodeRows) error) error {
	f.Limit = pageSize
	for {
		rows, err := Get[api.NodeRows](ctx, c, api.PathNodes, f)
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
