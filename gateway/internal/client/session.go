package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"muster/agent/pipe"
	"muster/gateway/api"
)

// SendPiece sends a piece to the node, and returns what pipe.Taken says.
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

// FetchPiece returns the piece from the node that begins at byte at. The piece is empty if none came within that time.
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

// WatchSession returns what the terminal of a session shows, as frames, from now on until the session ends. The caller closes it.
func (c *Client) WatchSession(ctx context.Context, node, id string) (io.ReadCloser, error) {
	response, err := c.long(ctx, api.At(api.PathWatch, node, id), nil, api.WatchKind, 0)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func (c *Client) pieceAddress(node, id string, channel int, q pipe.Query) string {
	return c.address(api.At(api.PathPieces, node, id), nil) + "?" + api.ParamChannel + "=" + strconv.Itoa(channel) + "&" + q.Encode()
}
