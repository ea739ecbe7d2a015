package cli

import (
	"context"
	"net/http"

	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// Get reads what a path of the gateway's API gives. The fields of a filter are the query; nil: there is none.
func Get[T any](ctx context.Context, s *Session, path string, filter any) (T, error) {
	return ask[T](ctx, s, http.MethodGet, path, filter, nil)
}

// Send has the gateway do something; body may be nil.
func Send[T any](ctx context.Context, s *Session, method, path string, body any) (T, error) {
	return ask[T](ctx, s, method, path, nil, body)
}

// Drop deletes what a path names.
func Drop(ctx context.Context, s *Session, path string, filter any) error {
	_, err := ask[struct{}](ctx, s, http.MethodDelete, path, filter, nil)
	return err
}

func ask[T any](ctx context.Context, s *Session, method, path string, filter, body any) (none T, err error) {
	c, err := s.Client(ctx)
	if err != nil {
		return none, err
	}
	return client.Ask[T](ctx, c, method, path, filter, body)
}

// pageSize is how many nodes are fetched at a time.
const pageSize = 500

// EachPage calls use with every page of the nodes that the filter picks.
func (s *Session) EachPage(ctx context.Context, f api.NodeFilter, use func(api.NodeRows) error) error {
	f.Limit = pageSize
	for {
		rows, err := Get[api.NodeRows](ctx, s, api.PathNodes, f)
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
func (s *Session) EachNode(ctx context.Context, f api.NodeFilter, use func(api.Node) error) error {
	return s.EachPage(ctx, f, func(page api.NodeRows) error {
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

// gathered is how many things are asked for at once.
const gathered = 1000

// Gather gets up to limit things, page by page; a limit of 0 means all. next is the cursor behind them; empty: there are no more.
func Gather[T any](limit int, page func(limit int, cursor string) (things []T, next string, err error)) (all []T, next string, err error) {
	all = []T{}
	for {
		most := gathered
		if limit > 0 {
			most = min(limit-len(all), gathered)
		}
		things, more, err := page(most, next)
		if err != nil {
			return nil, "", err
		}
		all = append(all, things...)
		next = more
		if next == "" || limit > 0 && len(all) >= limit {
			return all, next, nil
		}
	}
}

// WholeFleet returns all nodes that the filter picks, on as many pages as that takes.
func (s *Session) WholeFleet(ctx context.Context, f api.FleetFilter) (api.FleetView, error) {
	const page = 5000 // one answer has a bound in bytes
	f.Limit = page
	f.Sort = "" // other orders have one page
	view, err := Get[api.FleetView](ctx, s, api.PathFleet, f)
	for err == nil && view.Next != "" {
		f.Cursor = view.Next
		var more api.FleetView
		if more, err = Get[api.FleetView](ctx, s, api.PathFleet, f); err == nil {
			view.Nodes = append(view.Nodes, more.Nodes...)
			view.Next = more.Next
		}
	}
	return view, err
}
