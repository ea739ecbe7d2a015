package service_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/service"
)

func TestNotifier(t *testing.T) {
	folder, err := os.MkdirTemp("", "n") // t.TempDir's path can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	for _, name := range []string{filepath.Join(folder, "notify"), "@muster-test-" + filepath.Base(folder)} {
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		receive := func() string {
			socket.SetReadDeadline(time.Now().Add(time.Minute))
			raw := make([]byte, 4096)
			n, _, err := socket.ReadFrom(raw)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw[:n])
		}
		t.Setenv("NOTIFY_SOCKET", name)
		t.Setenv("WATCHDOG_USEC", "1")
		n := service.NewNotifier(os.Getenv)
		if os.Getenv("NOTIFY_SOCKET")+os.Getenv("WATCHDOG_USEC") != "" {
			t.Error("children inherit the socket")
		}
		for _, test := range []struct {
			act  func()
			want string
		}{
			{func() { n.Starting(time.Minute, "enrolling: no\nanswer") }, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=enrolling: no answer"},
			{func() { n.Progress("retrying") }, "WATCHDOG=1\nREADY=1\nSTATUS=retrying"},
			{func() { n.Progress("retrying") }, "WATCHDOG=1"},
			{func() { n.Progress("online") }, "WATCHDOG=1\nSTATUS=online"},
			{n.Stopping, "STOPPING=1"},
		} {
			test.act()
			if got := receive(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		}
		socket.Close()
	}
}

// TestNotifierWithoutSocket: nobody listens at first. READY is sent as soon as somebody does.
func TestNotifierWithoutSocket(t *testing.T) {
	n := service.NewNotifier(func(string) string { return "" })
	n.Progress("online")
	n.Stopping()
	path := filepath.Join(t.TempDir(), "s")
	if len(path) > 100 {
		t.Skip("the path is too long for a socket")
	}
	n = service.NewNotifier(func(string) string { return path })
	n.Progress("retrying")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	n.Progress("retrying")
	raw := make([]byte, 100)
	socket.SetReadDeadline(time.Now().Add(time.Minute))
	if count, _, err := socket.ReadFrom(raw); err != nil || !strings.Contains(string(raw[:count]), "READY=1\nSTATUS=retrying") {
		t.Errorf("%q, %v", raw[:count], err)
	}
}
