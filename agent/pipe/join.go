package pipe

import (
	"cmp"
	"errors"
	"io"
	"sync"
)

// Conn is a connection whose two directions end apart, such as one of TCP.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Join carries bytes between a connection and a channel, until both directions have ended. The end of one direction is passed on, and the
// other one goes on. Then it closes both.
//
// A connection can also break: then bytes that are still on their way to it have nowhere to go. A channel cannot say that. So hangUp is
// called, which tells the other side over the channel Main (FrameHangUp), and what still comes is dropped. The other side closes its
// connection, and so both directions of the channel come to their ends, as the gateway wants it.
//
// The error says why the channel ended before its time, for example by the end of the session. It is no error if a connection broke.
func Join(conn Conn, end *End, hangUp func()) error {
	hangUp = sync.OnceFunc(hangUp)
	var outward sync.WaitGroup
	var broke error // of the outward direction
	outward.Go(func() {
		from, to := carry(end, conn)
		if from != nil {
			hangUp()
		}
		if to == nil {
			to = end.CloseWrite()
		}
		if broke = to; broke != nil { // the session is over
			conn.Close()
		}
	})
	from, to := carry(conn, end)
	switch {
	case to != nil:
		hangUp()
		conn.Close() // ends the other direction
		_, _ = io.Copy(io.Discard, end)
	case from != nil:
		conn.Close()
	default:
		_ = conn.CloseWrite() // fails if the connection has broken, and then the other direction says so
	}
	outward.Wait()
	conn.Close()
	end.Close()
	return cmp.Or(from, broke)
}

// carrySize is how much is read at once, in bytes.
const carrySize = 32 << 10

// carry copies until the source ends. It tells a source that fails from a destination that does.
func carry(dst io.Writer, src io.Reader) (from, to error) {
	buffer := make([]byte, carrySize)
	for {
		n, err := src.Read(buffer)
		if _, failed := dst.Write(buffer[:n]); failed != nil {
			return nil, failed
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		}
	}
}
