package client

import (
	"context"
	"fmt"
	"io"
	"time"

	"muster/gateway/api"
)

// OpenRecording returns what the terminal of a session showed, and the state of the recording. The caller closes it, and may do so early.
func (c *Client) OpenRecording(ctx context.Context, id string) (cast io.ReadCloser, state string, err error) {
	response, err := c.long(ctx, api.At(api.PathRecording, id), nil, api.RecordingType, time.Hour)
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
