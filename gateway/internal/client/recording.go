package client

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"
)

// RecordingType is the media type of a recording, asciicast v2.
const RecordingType = "application/x-asciicast"

// HeaderRecording says in the answer with a recording how much of it is there: one of the states below.
const HeaderRecording = "Muster-Recording"

// States of a recording. All that comes was verified, whatever the state.
const (
	RecordingComplete = "complete"
	RecordingLive     = "live"    // its session goes on
	RecordingCutOff   = "cut-off" // its end is missing: the gateway was killed, its disk was full, or somebody has cut the file off
	RecordingDamaged  = "damaged" // it is not as it was written, and what follows the damage is left out
)

// FindSession gives a session, of whatever node.
func (c *Client) FindSession(ctx context.Context, id string) (Session, error) {
	var s Session
	err := c.do(ctx, "GET", "sessions/"+url.PathEscape(id), nil, nil, &s)
	return s, err
}

// OpenRecording gives what the terminal of a session showed, and the state of the recording. The caller closes it, and may do so early.
func (c *Client) OpenRecording(ctx context.Context, id string) (cast io.ReadCloser, state string, err error) {
	response, err := c.long(ctx, "sessions/"+url.PathEscape(id)+"/recording", nil, RecordingType, time.Hour)
	if err != nil {
		return nil, "", err
	}
	return response.Body, response.Header.Get(HeaderRecording), nil
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
