package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"muster/agent/pipe"
	"muster/gateway/api"
)

// OpenSession asks for a session with a node. It is there when the node has taken it, and its first frame says so.
func (c *Client) OpenSession(ctx context.Context, node string, ask api.SessionAsk) (api.Session, error) {
	var s api.Session
	err := c.do(ctx, http.MethodPost, sessionsPath(node), nil, ask, &s)
	return s, err
}

// Sessions gives one page: of the node of the filter, or of all.
func (c *Client) Sessions(ctx context.Context, f api.SessionFilter) (api.SessionPage, error) {
	q := url.Values{}
	set(q, "type", f.Type)
	set(q, "status", f.Status)
	set(q, "tenant", f.Tenant)
	set(q, "cursor", f.Cursor)
	setNumber(q, "limit", int64(f.Limit))
	path := "sessions"
	if f.Node != "" {
		path = sessionsPath(f.Node)
	}
	var page api.SessionPage
	err := c.do(ctx, http.MethodGet, path, q, nil, &page)
	return page, err
}

// Session gives one session of a node.
func (c *Client) Session(ctx context.Context, node, id string) (api.Session, error) {
	var s api.Session
	err := c.do(ctx, http.MethodGet, sessionPath(node, id), nil, nil, &s)
	return s, err
}

// KillSession ends a session.
func (c *Client) KillSession(ctx context.Context, node, id string) (api.Session, error) {
	var s api.Session
	err := c.do(ctx, http.MethodDelete, sessionPath(node, id), nil, nil, &s)
	return s, err
}

// SendPiece hands over a piece for the node, and gives what pipe.Taken says.
func (c *Client) SendPiece(ctx context.Context, node, id string, channel int, at int64, p pipe.Piece) (next int64, err error) {
	body := bytes.Clone(p.Body()) // net/http may go on reading it after an early answer, and the piece is the caller's
	r, err := c.request(ctx, http.MethodPost, c.pieceAddress(node, id, channel, pipe.Query{At: at}), body)
	if err != nil {
		return at, err
	}
	r.Header.Set("Content-Type", pipe.Kind)
	response, err := c.HTTP.Do(r)
	if err != nil {
		return at, c.failed(err)
	}
	answer, err := take(response)
	if err != nil {
		return at, err
	}
	var taken pipe.Taken
	err = read(answer, &taken)
	return taken.Next, err
}

// FetchPiece gives the piece from the node that begins at this byte, an empty one where none came within that time.
func (c *Client) FetchPiece(ctx context.Context, node, id string, channel int, at int64, within time.Duration) (pipe.Piece, error) {
	r, err := c.request(ctx, http.MethodGet, c.pieceAddress(node, id, channel, pipe.Query{At: at, Wait: within}), nil)
	if err != nil {
		return pipe.Piece{}, err
	}
	response, err := c.HTTP.Do(r)
	if err != nil {
		return pipe.Piece{}, c.failed(err)
	}
	answer, err := take(response)
	switch {
	case err != nil:
		return pipe.Piece{}, err
	case answer.status == http.StatusOK && answer.kind == pipe.Kind:
		return pipe.ReadPiece(answer.body)
	}
	if err = read(answer, nil); err == nil {
		err = fmt.Errorf("the gateway's answer is %s, and not a piece of the session; is the gateway of another version?", answer.kind)
	}
	return pipe.Piece{}, err
}

// WatchSession gives what the terminal of a session shows, as frames, from now on until the session ends. The caller closes it.
func (c *Client) WatchSession(ctx context.Context, node, id string) (io.ReadCloser, error) {
	response, err := c.long(ctx, sessionPath(node, id)+"/watch", nil, api.WatchKind, 0)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func (c *Client) pieceAddress(node, id string, channel int, q pipe.Query) string {
	return c.address(sessionPath(node, id)+"/stream", nil) + "?" + api.ParamChannel + "=" + strconv.Itoa(channel) + "&" + q.Encode()
}

func sessionsPath(node string) string { return "nodes/" + url.PathEscape(node) + "/sessions" }

func sessionPath(node, id string) string { return sessionsPath(node) + "/" + url.PathEscape(id) }
