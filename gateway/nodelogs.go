package main

import (
	"context"
	"io"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/session"
)

// openLog opens a log on a node, as a session of the gateway's own.
func (g *gateway) openLog(ctx context.Context, nodeID string, p wire.LogsParams) (io.ReadCloser, error) {
	opened, err := g.sessions.Internal(ctx, nodeID, wire.SessionLogs, p)
	if err != nil {
		return nil, err
	}
	return openedLog{pipe.Open(ctx, opened, pipe.Main), opened}, nil
}

// openedLog ends its session when it is closed, and the node hears of that.
type openedLog struct {
	*pipe.End
	session *session.Internal
}

// Close ends both: who reads, and the session.
func (l openedLog) Close() error {
	err := l.End.Close()
	if err == nil {
		err = l.session.Close()
	}
	return err
}
