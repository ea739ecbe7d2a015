package transport

import (
	"context"
	"net"
	"sync"
)

// lines are the open connections of a tenure. net/http closes the connection of a cancelled request somewhat later, and goes on
// dialling for a request that has ended. So the tenure keeps its own list. The zero value is ready.
type lines struct {
	mu   sync.Mutex
	open map[*line]struct{}
	over bool // none may be opened any more
}

// line is one of them.
type line struct {
	net.Conn
	of *lines
}

// dial opens a connection, as http.Transport has it.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialer dials for a tenure.
func (l *lines) dialer(under dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := under(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return l.keep(conn)
	}
}

func (l *lines) keep(conn net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		conn.Close()
		return nil, ErrIdentityChanged
	}
	if l.open == nil {
		l.open = map[*line]struct{}{}
	}
	kept := &line{Conn: conn, of: l}
	l.open[kept] = struct{}{}
	return kept, nil
}

// Close forgets the connection, too.
func (k *line) Close() error {
	k.of.mu.Lock()
	delete(k.of.open, k)
	k.of.mu.Unlock()
	return k.Conn.Close()
}

// cut ends all connections that are open, and those that are being opened. The kernel drops what it has not sent yet.
func (l *lines) cut() {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.over = true
	l.mu.Unlock()
	for k := range open {
		if tcp, ok := k.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a connection that is closed already
		}
		_ = k.Conn.Close()
	}
}
