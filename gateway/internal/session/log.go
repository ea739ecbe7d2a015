package session

import (
	"context"
	"io"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// OpenLog reads a log of a node through a session of the gateway's own: the frames of its channel Main. Close ends the session, and the
// node hears of that.
func (d *Service) OpenLog(ctx context.Context, node string, p wire.LogsParams) (io.ReadCloser, error) {
	opened, err := d.Internal(ctx, node, wire.SessionLogs, p)
	if err != nil {
		return nil, err
	}
	return openedLog{pipe.Open(ctx, opened, pipe.Main), opened}, nil
}

type openedLog struct {
	*pipe.End
	session *Internal
}

// Close ends the reader and the session.
func (l openedLog) Close() error {
	err := l.End.Close()
	if err == nil {
		err = l.session.Close()
	}
	return err
}
