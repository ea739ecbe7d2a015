package client

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"muster/gateway/api"
)

// FindSession gives a session, of whatever node.
func (c *Client) FindSession(ctx context.Context, id string) (api.Session, error) {
	var s api.Session
	err := c.do(ctx, "GET", "sessions/"+url.PathEscape(id), nil, nil, &s)
	return s, err
}

// OpenRecording gives what the terminal of a session showed, and the state of the recording. The caller closes it, and may do so early.
func (c *Client) OpenRecording(ctx context.Context, id string) (cast io.ReadCloser, state string, err error) {
	response, err := c.long(ctx, "sessions/"+url.PathEscape(id)+"/recording", nil, api.RecordingType, time.Hour)
	if err != nil {
		return nil, "", err
	}
	return response.Body, response.Header.Get(api.HeaderRecording), nil
}

// Recording writes what the terminal of a session showed, and gives the state of the recording.
func (c *Client) Recording(ctx context.Context, id string, to io.Writer) (state string, err error) {
	cast, state, err := c.OpenRecording(ctx, id)
	if err != nil {
		return "", err
	}
	defer cast.Close()
	if _, err := io.Copy(to, cast); err != nil {
		return "", fmt.Errorf("the recording broke off on its way: %w", err)
	}
	return state, nil
}
