package peer

import (
	"errors"
	"net"
	"time"

	"muster/gateway/internal/httpserver/limit"
)

const (
	// shareOfOne is the part of a listener's places that one address may have: a thousand nodes may share one address.
	shareOfOne = 4
	// burstOfOne is how many connections of one address are passed in a row, and paceOfOne the time until there is one more: each costs two
	// gateways a handshake, before anybody has proven something.
	burstOfOne = 4096
	paceOfOne  = 4 * time.Millisecond
)

// room bounds the connections of one listener that are passed.
type room struct {
	*Relay
	places limit.Places
	pace   *limit.Limiter
}

func newRoom(r *Relay) *room {
	return &room{Relay: r, pace: limit.New(limit.Config{Burst: burstOfOne, Every: paceOfOne})}
}

// errOften says that an address comes too often.
var errOften = errors.New("this address has opened too many connections in a row")

// enter takes a place for a connection. Callers on a socket have no address, and share all places.
func (r *room) enter(c net.Conn) (leave func(), err error) {
	at, many := r.Place(c.RemoteAddr())
	if many || !at.IsValid() {
		return r.places.Enter("", 1, r.Most, r.Most)
	}
	if r.pace.Over(at.String()) {
		return nil, errOften
	}
	return r.places.Enter(at.String(), 1, max(r.Most/shareOfOne, 1), r.Most)
}
