package httpserver_test

import (
	"errors"
	"net"
	"os"
	"testing"

	"muster/gateway/internal/httpserver"
)

// TestKernelKeepsLittle: of a long answer that nobody reads, this machine keeps little.
func TestKernelKeepsLittle(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	l := httpserver.New(httpserver.Config{Limits: quick(), Place: at}).Network(inner)
	dial(t, inner.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.Write(make([]byte, large))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 1<<20 {
		t.Errorf("%d bytes were taken for a peer that reads nothing, and then came %v", n, err)
	}
}

// TestLeast: a peer with many bytes on the way must take many.
func TestLeast(t *testing.T) {
	d := httpserver.New(httpserver.Config{Limits: quick(), Place: at})
	for queued, least := range map[int]int{0: 4 << 10, 32 << 10: 4 << 10, 64 << 10: 8 << 10, 4 << 20: 512 << 10} {
		if got := d.Least(queued); got != least {
			t.Errorf("of %d bytes %d must be taken, want %d", queued, got, least)
		}
	}
}
