// Package pipe carries bytes between two ends that cannot reach each other: an operator and a node, with the gateway between.
//
// Each channel of a session is a pair of pipes, one in each direction. Its bytes travel in pieces. A piece is the body of one request or of
// one answer, complete by itself. So every path carries it: one that streams at once, and a proxy that holds back an answer until it is
// whole. A request is proven and judged like every other one of its caller.
//
// Both ends count the bytes of each direction from 0. The sender says where its piece begins, and sends bytes again that were not taken.
// The receiver says from which byte on it fetches, and by that what has arrived. So nothing is lost or doubled when a connection breaks,
// and what the gateway keeps is bounded.
//
//	POST .../channels/N?at=1000            a piece; answered by Taken
//	GET  .../channels/N?at=2000&wait=20    answered by a piece, an empty one if nothing came in time
package pipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"muster/agent/wire"
)

// Parameters of both requests.
const (
	ParamAt   = "at"   // where the piece begins, or from where to fetch: bytes of this direction before it
	ParamWait = "wait" // whole seconds, at most wire.PieceWait; of a GET
)

// Kind is the Content-Type of a piece.
const Kind = "application/vnd.muster.piece"

// Main is the channel that every session has. Its bytes are frames.
const Main = 0

// Piece is some bytes of one direction of a channel. Its body begins with a mark.
type Piece struct {
	Data []byte
	End  bool   // nothing follows in this direction
	body []byte // Data with a byte for the mark in front; nil: there is no such byte
}

// NewPiece makes a piece from memory whose first byte is for the mark, and whose other bytes are the data. So its Body is no copy.
func NewPiece(memory []byte, end bool) Piece { return Piece{Data: memory[1:], End: end, body: memory} }

// After returns the piece without its first bytes. bytes says how many. Its mark takes the place of the last of them.
func (p Piece) After(bytes int64) Piece {
	p.Data = p.Data[bytes:]
	if p.body != nil {
		p.body = p.body[bytes:]
	}
	return p
}

// Marks of a body.
const (
	markMore = 0
	markEnd  = 1
)

// Body returns the piece in the form of a request's or an answer's body. It uses the memory of NewPiece if there is one; else it copies.
func (p Piece) Body() []byte {
	body := p.body
	if body == nil {
		body = append(make([]byte, 1, len(p.Data)+1), p.Data...)
	}
	body[0] = markMore
	if p.End {
		body[0] = markEnd
	}
	return body
}

// shared is how many bytes the pieces that are on their way on all channels of a session may have together, in each direction and at each
// end. An end holds a few of them.
const shared = 16 << 20

// Share returns how many bytes a piece may have in a session with this many channels.
func Share(channels int) int { return min(wire.MaxPiece, shared/max(channels, 1)) }

// MaxBody is the length of the longest body of a piece, in bytes.
const MaxBody = wire.MaxPiece + 1

// ReadPiece reads a body. The piece keeps the body's memory.
func ReadPiece(body []byte) (Piece, error) {
	switch {
	case len(body) == 0 || len(body) > MaxBody:
		return Piece{}, fmt.Errorf("a piece of %d bytes: it has 1 to %d", len(body), MaxBody)
	case body[0] > markEnd:
		return Piece{}, fmt.Errorf("a piece with the mark %d: this side is too old for it", body[0])
	}
	return NewPiece(body, body[0] == markEnd), nil
}

// Taken answers a piece that was sent: all bytes before Next are kept. It may be less than what was sent.
type Taken struct {
	Next int64 `json:"next"`
}

// ReadTaken reads the answer to a piece.
func ReadTaken(body []byte) (Taken, error) {
	var t Taken
	err := json.Unmarshal(body, &t)
	return t, err
}

// Query is what a request says of its piece. The wait counts for a GET alone.
type Query struct {
	At   int64
	Wait time.Duration
}

// Encode returns the query of a URL. Without a wait it asks only for bytes that are there already.
func (q Query) Encode() string {
	text := ParamAt + "=" + strconv.FormatInt(q.At, 10)
	if q.Wait > 0 {
		text += "&" + ParamWait + "=" + strconv.Itoa(int(q.Wait/time.Second))
	}
	return text
}

// ReadQuery reads the parameters of a request. It does not look at other parameters.
func ReadQuery(values url.Values) (Query, error) {
	at, err := strconv.ParseInt(values.Get(ParamAt), 10, 64)
	if err != nil || at < 0 || at > wire.MaxNumber {
		return Query{}, errors.New(ParamAt + " is a number of bytes")
	}
	q := Query{At: at}
	if text := values.Get(ParamWait); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 0 || seconds > int(wire.PieceWait/time.Second) {
			return Query{}, fmt.Errorf("%s is 0 to %d seconds", ParamWait, int(wire.PieceWait/time.Second))
		}
		q.Wait = time.Duration(seconds) * time.Second
	}
	return q, nil
}

// Carrier moves the pieces of one session between one end and the gateway. It is safe for concurrent use.
//
// An error that wraps a *wire.ErrorDetail is the gateway's word and final: the session is over for this end. Any other error is trouble
// on the way, and the same call may succeed later.
type Carrier interface {
	// Send sends a piece that begins at byte at. It returns what Taken says. Once it has returned, nobody reads the piece any more.
	Send(ctx context.Context, channel int, at int64, p Piece) (next int64, err error)
	// Fetch returns the piece that begins at byte at. The piece is empty if none came within wire.PieceWait. It may use memory, which may
	// be nil.
	Fetch(ctx context.Context, channel int, at int64, memory []byte) (Piece, error)
}
