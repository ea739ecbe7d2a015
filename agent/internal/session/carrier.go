package session

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// lateTime is how long an answer may come after the time for which the gateway may wait.
const lateTime = 15 * time.Second

// carrier moves the pieces of one session to and from the gateway.
type carrier struct {
	client *transport.Client
	id     string
	pace   *pace
	touch  func() // for each piece with bytes, in either direction
}

// Send hands a piece to the gateway.
func (c *carrier) Send(ctx context.Context, channel int, at int64, p pipe.Piece) (int64, error) {
	if len(p.Data) > 0 {
		c.touch()
	}
	answer, err := c.do(ctx, transport.Request{
		Path: c.path(channel, pipe.Query{At: at}), Kind: pipe.Kind, Body: p.Body(), Timeout: wire.PieceWait + lateTime,
	})
	if err != nil {
		return 0, err
	}
	taken, err := pipe.ReadTaken(answer.Body)
	return taken.Next, err
}

// Fetch asks the gateway for a piece.
func (c *carrier) Fetch(ctx context.Context, channel int, at int64, memory []byte) (pipe.Piece, error) {
	path := c.path(channel, pipe.Query{At: at, Wait: wire.PieceWait})
	q := transport.Request{Path: path, Timeout: wire.PieceWait + lateTime, Most: pipe.MaxBody, Memory: memory}
	answer, err := c.do(ctx, q)
	if err != nil {
		return pipe.Piece{}, err
	}
	p, err := pipe.ReadPiece(answer.Body)
	if len(p.Data) > 0 {
		c.touch()
	}
	return p, err
}

func (c *carrier) path(channel int, q pipe.Query) string {
	return wire.SessionChannelPath(c.id, strconv.Itoa(channel)) + "?" + q.Encode()
}

// do makes a call, again where a change of the node's identity has cut it. The error is a *wire.ErrorDetail where the gateway's word is
// about the session. A word about the identity of the node is trouble on the way: a renewal can cause it and end it.
func (c *carrier) do(ctx context.Context, q transport.Request) (transport.Answer, error) {
	if c.client.Mode() != "mtls" {
		c.pace.wait(ctx)
	}
	for {
		answer, err := c.client.Do(ctx, q)
		if errors.Is(err, transport.ErrIdentityChanged) && ctx.Err() == nil {
			continue
		}
		var refusal *transport.Refusal
		if errors.As(err, &refusal) && !passes(refusal.Code) {
			return answer, &refusal.ErrorDetail
		}
		return answer, err
	}
}

// passes tells whether a refusal is about the moment and not about the session.
func passes(code string) bool {
	switch code {
	case wire.CodeNoIdentity, wire.CodeMTLSRequired, wire.CodeUnknownCertificate, wire.CodeExpired, wire.CodeSupersededRetry,
		wire.CodeIdentityMismatch, wire.CodeBadSignature, wire.CodeBadDigest:
		return true
	}
	return false
}

// pace bounds how fast signed requests of all sessions follow one another. The gateway remembers each of them for a minute, and 4,096 of a
// node at most: one busy session must not keep the heartbeat out. If the node's certificate is proof enough there is no such bound.
type pace struct {
	mu   sync.Mutex
	next time.Time // when the next one is due, where all have kept to paceTime
}

const (
	paceTime  = 20 * time.Millisecond
	paceBurst = 200 // requests that may come at once after a rest
)

func (p *pace) wait(ctx context.Context) {
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-paceBurst * paceTime); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(paceTime)
	pause := p.next.Sub(now)
	p.mu.Unlock()
	transport.Sleep(ctx, pause)
}
