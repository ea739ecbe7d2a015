package tty

import (
	"context"
	"io"
)

// Reader reads until a context ends. Then it returns Err at once, also from a read that waits.
type Reader struct {
	From  io.Reader
	Until context.Context
	Err   error
}

// Read leaves a read of From alone that waits when the context ends: nothing can end that, and nobody gets what it reads later.
func (r Reader) Read(p []byte) (int, error) {
	type piece struct {
		bytes []byte
		err   error
	}
	came := make(chan piece, 1)
	go func() {
		own := make([]byte, len(p))
		n, err := r.From.Read(own)
		came <- piece{own[:n], err}
	}()
	select {
	case got := <-came:
		if r.Until.Err() == nil {
			return copy(p, got.bytes), got.err
		}
	case <-r.Until.Done():
	}
	return 0, r.Err
}
