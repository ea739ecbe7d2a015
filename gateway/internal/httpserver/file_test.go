package httpserver_test

import (
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/httpserver"
)

// TestFileMoved: where the place in a file is another one than the bytes that were sent say, what follows is not sent as if it fitted.
func TestFileMoved(t *testing.T) {
	h := &house{t: t}
	file, err := os.Open(h.numberedFile())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	same, err := syscall.Dup(int(file.Fd())) // it shares the place
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(same)

	inside, outside := pair(t)
	sent := make(chan error)
	go func() {
		_, err := inside.(io.ReaderFrom).ReadFrom(file)
		sent <- err
	}()
	before := int64(0)
	waitFor(t, func() bool { // until the kernel takes no more: then nothing else moves the place
		at, err := syscall.Seek(same, 0, io.SeekCurrent)
		stands := err == nil && at > 0 && at == before
		before = at
		return stands
	})
	if _, err := syscall.Seek(same, 0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, outside) }() // until it is closed
	if err := <-sent; err == nil {
		t.Error("a file whose place was moved was sent without an error")
	}
}

// TestNoFile: what the kernel cannot send by itself comes through this process.
func TestNoFile(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(write, "through a pipe"); err != nil {
		t.Fatal(err)
	}
	write.Close()
	inside, outside := pair(t)
	if n, err := inside.(io.ReaderFrom).ReadFrom(read); err != nil || n != int64(len("through a pipe")) {
		t.Fatal(n, err)
	}
	inside.Close()
	if got, err := io.ReadAll(outside); err != nil || string(got) != "through a pipe" {
		t.Errorf("%q came, %v", got, err)
	}
}

// pair is a connection that a limiter let in, and its other end.
func pair(t *testing.T) (inside, outside net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	outside = dial(t, l.Addr().String())
	limits := quick()
	limits.Stall = time.Minute
	d := httpserver.New(httpserver.Config{Limits: limits, Place: at, Logger: slog.New(slog.DiscardHandler)})
	if inside, err = d.Network(l).Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	return inside, outside
}
