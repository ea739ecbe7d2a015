package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestLinesEndWithTheirIdentity: open connections are cut, and those that are dialled later are closed at once.
func TestLinesEndWithTheirIdentity(t *testing.T) {
	var l lines
	var far []net.Conn
	dial := l.dialer(func(context.Context, string, string) (net.Conn, error) {
		near, end := net.Pipe()
		far = append(far, end)
		return near, nil
	})
	open := func() (net.Conn, error) { return dial(t.Context(), "", "") }
	closed, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = open(); err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if len(l.open) != 1 {
		t.Errorf("%d are counted, want 1", len(l.open))
	}
	l.cut()
	if _, err := open(); !errors.Is(err, ErrIdentityChanged) {
		t.Errorf("error %v", err)
	}
	for i, end := range far {
		_ = end.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := end.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	refused := errors.New("connection refused")
	_, err = l.dialer(func(context.Context, string, string) (net.Conn, error) { return nil, refused })(t.Context(), "", "")
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}
