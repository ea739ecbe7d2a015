// Package client is the admin API as its callers see it: the Go client, and the shapes of requests and answers, which the server uses too.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"muster/agent/wire"
)

// Client calls the admin API. It is safe for concurrent use. Refusals come back as *wire.ErrorDetail; all other errors
// are about the way to the gateway and say what to check.
type Client struct {
	BaseURL string // without a slash at its end
	Token   string // API token; empty on the socket
	HTTP    *http.Client
	explain func(error) error // adds what to do about a connection that failed; nil: nothing
}

// longest answer that a client takes, in bytes: a page of 1000 nodes with eight GPUs each is some 5 MB.
const longestAnswer = 64 << 20

// NodeFilter picks nodes. Zero fields pick nothing out.
type NodeFilter struct {
	Selector, Status, State string
	All                     bool // retired ones too
	Limit                   int
	Cursor                  string
}

// NodeRows is a NodePage whose nodes are as the gateway sent them, so that fields which this client does not know are kept.
type NodeRows struct {
	Nodes []json.RawMessage `json:"nodes"`
	Next  string            `json:"next"`
	Total int               `json:"total"`
}

// Nodes gives one page.
func (c *Client) Nodes(ctx context.Context, f NodeFilter) (NodeRows, error) {
	q := url.Values{}
	set(q, "selector", f.Selector)
	set(q, "status", f.Status)
	set(q, "state", f.State)
	set(q, "cursor", f.Cursor)
	if f.All {
		q.Set("all", "true")
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var rows NodeRows
	err := c.do(ctx, "GET", "nodes", q, nil, &rows)
	return rows, err
}

// Node gives one node by name or id, as the gateway sent it.
func (c *Client) Node(ctx context.Context, node string) (json.RawMessage, error) {
	var row json.RawMessage
	err := c.do(ctx, "GET", "nodes/"+url.PathEscape(node), nil, nil, &row)
	return row, err
}

// Apply moves a node; verb is drain, resume, retire or ban.
func (c *Client) Apply(ctx context.Context, node, verb string) (Node, error) {
	var n Node
	err := c.do(ctx, "POST", "nodes/"+url.PathEscape(node)+"/"+url.PathEscape(verb), nil, struct{}{}, &n)
	return n, err
}

// SetLabels sets and removes labels of a node as the operator.
func (c *Client) SetLabels(ctx context.Context, node string, q LabelsRequest) (Node, error) {
	var n Node
	err := c.do(ctx, "POST", "nodes/"+url.PathEscape(node)+"/labels", nil, q, &n)
	return n, err
}

// CreateToken mints an enrollment token.
func (c *Client) CreateToken(ctx context.Context, q TokenRequest) (NewToken, error) {
	var t NewToken
	err := c.do(ctx, "POST", "tokens", nil, q, &t)
	return t, err
}

// Tokens lists tokens, newest first; with all also those that are spent.
func (c *Client) Tokens(ctx context.Context, tenant string, all bool) (TokenList, error) {
	q := url.Values{}
	set(q, "tenant", tenant)
	if all {
		q.Set("all", "true")
	}
	var list TokenList
	err := c.do(ctx, "GET", "tokens", q, nil, &list)
	return list, err
}

// RevokeToken ends a token, named by its public part.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "tokens/"+url.PathEscape(id), nil, nil, nil)
}

// PSKs lists the live pre-shared keys, newest first.
func (c *Client) PSKs(ctx context.Context) (PSKList, error) {
	var list PSKList
	err := c.do(ctx, "GET", "psk", nil, nil, &list)
	return list, err
}

// SetPSK makes a pre-shared key the only one.
func (c *Client) SetPSK(ctx context.Context, q PSKRequest) (NewPSK, error) {
	var k NewPSK
	err := c.do(ctx, "POST", "psk", nil, q, &k)
	return k, err
}

// RotatePSK adds a second pre-shared key.
func (c *Client) RotatePSK(ctx context.Context, q PSKRequest) (NewPSK, error) {
	var k NewPSK
	err := c.do(ctx, "POST", "psk/rotate", nil, q, &k)
	return k, err
}

// ClearPSK ends every pre-shared key but the one to keep; empty ends all.
func (c *Client) ClearPSK(ctx context.Context, keep string) error {
	q := url.Values{}
	set(q, "keep", keep)
	return c.do(ctx, "DELETE", "psk", q, nil, nil)
}

// EventFilter picks events. Zero fields pick nothing out.
type EventFilter struct {
	Node, Kind, Tenant string
	Security           bool
	Since              time.Time
	Forward            bool  // oldest first, those after the id After
	After, Before      int64 // ids
	Limit              int
}

// Events lists events: newest first, or oldest first with Forward.
func (c *Client) Events(ctx context.Context, f EventFilter) (EventList, error) {
	q := url.Values{}
	set(q, "node", f.Node)
	set(q, "kind", f.Kind)
	set(q, "tenant", f.Tenant)
	if f.Security {
		q.Set("security", "true")
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	if f.Forward {
		q.Set("after", strconv.FormatInt(f.After, 10))
	}
	if f.Before > 0 {
		q.Set("before", strconv.FormatInt(f.Before, 10))
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var list EventList
	err := c.do(ctx, "GET", "events", q, nil, &list)
	return list, err
}

// WhoAmI tells whom the gateway takes this client for.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	var who Identity
	err := c.do(ctx, "GET", "whoami", nil, nil, &who)
	return who, err
}

// Gateway tells how machines reach the gateway.
func (c *Client) Gateway(ctx context.Context) (Gateway, error) {
	var g Gateway
	err := c.do(ctx, "GET", "gateway", nil, nil, &g)
	return g, err
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// do makes one request; in and out may be nil.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, in, out any) error {
	address := c.BaseURL + wire.PrefixAdmin + path
	if len(q) > 0 {
		address += "?" + q.Encode()
	}
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return c.failed(err)
	}
	defer answer.Body.Close()
	return read(answer, out)
}

func (c *Client) failed(err error) error {
	if c.explain == nil {
		return err
	}
	return c.explain(err)
}

// read takes an answer apart. What is not JSON of muster's was sent by something else.
func read(answer *http.Response, out any) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	raw, err := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	if err != nil {
		return fmt.Errorf("the gateway's answer broke off: %w", err)
	}
	ok := answer.StatusCode/100 == 2
	if kind == "application/json" && !ok {
		var refusal wire.Error
		if json.Unmarshal(raw, &refusal) == nil && refusal.Error.Code != "" {
			if refusal.RequestID != "" {
				refusal.Error.Message += ", request id " + refusal.RequestID
			}
			return &refusal.Error
		}
	}
	if kind != "application/json" || !ok {
		return fmt.Errorf("not muster's admin API: %s answered with status %d and %q; is the URL right, and does it lead to the gateway itself?",
			answer.Request.URL.Host, answer.StatusCode, kind)
	}
	if out == nil {
		return nil
	}
	return understand(raw, out)
}

func understand(raw []byte, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the gateway's answer is not as this version expects; is the gateway of another one (its path /version says)? %w", err)
	}
	return nil
}

// IsNotFound tells whether an error is the gateway's word that something does not exist.
func IsNotFound(err error) bool {
	var detail *wire.ErrorDetail
	return errors.As(err, &detail) && detail.Code == wire.CodeNotFound
}

// pageSize is how many nodes are fetched at a time.
const pageSize = 500

// EachPage calls use with every page of the nodes that the filter picks.
func (c *Client) EachPage(ctx context.Context, f NodeFilter, use func(NodeRows) error) error {
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
func (c *Client) EachNode(ctx context.Context, f NodeFilter, use func(Node) error) error {
	return c.EachPage(ctx, f, func(page NodeRows) error {
		for _, raw := range page.Nodes {
			n, err := ReadNode(raw)
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

// ReadNode reads a node as the gateway sent it.
func ReadNode(raw json.RawMessage) (Node, error) {
	var n Node
	if err := json.Unmarshal(raw, &n); err != nil {
		return n, fmt.Errorf("a node in the gateway's answer is not as this version expects: %w", err)
	}
	return n, nil
}
