//go:build !linux

package tty

import (
	"errors"
	"io"
	"os"
)

// Event is a key, or the end of the terminal.
type Event struct {
	Key Key
	End error
}

// Terminal is a terminal that shows live pictures. This system's terminals are not known.
type Terminal struct{ Raw }

// Open refuses.
func Open(_, _ *os.File) (*Terminal, error) {
	return nil, errors.New("a live picture needs Linux; write to a pipe, or use --once")
}

// Events has none.
func (t *Terminal) Events() <-chan Event { return nil }

// Size returns the usual one.
func (t *Terminal) Size() Size { return believed(0, 0) }

// Draw does nothing.
func (t *Terminal) Draw([]string) error { return nil }

// Raw is a terminal whose keys all go elsewhere. This system's terminals are not known.
type Raw struct{}

// OpenRaw refuses.
func OpenRaw(_, _ *os.File) (*Raw, error) {
	return nil, errors.New("a terminal on a node needs Linux here too")
}

// WindowSize returns zeros: the size is not known.
func WindowSize(*os.File) Size { return Size{} }

// Sizes has none.
func (r *Raw) Sizes() <-chan Size { return nil }

// Ended has none.
func (r *Raw) Ended() <-chan error { return nil }

// Read gives nothing.
func (r *Raw) Read([]byte) (int, error) { return 0, io.EOF }

// Write shows nothing.
func (r *Raw) Write(p []byte) (int, error) { return len(p), nil }

// Undo does nothing.
func (r *Raw) Undo(string) {}

// Close does nothing.
func (r *Raw) Close() {}

// Guard does nothing.
func (r *Raw) Guard() {}
