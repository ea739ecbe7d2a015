package daemon_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/httpserver/daemon"
)

func TestNotifier(t *testing.T) {
	dir, err := os.MkdirTemp("", "m") // t.TempDir's path can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{filepath.Join(dir, "notify"), fmt.Sprintf("@muster-test-%d", os.Getpid())} {
		listening := strings.Replace(name, "@", "\x00", 1)
		heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: listening, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		if err := heard.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		done := make(chan error)
		go func() { done <- daemon.Notifier{Socket: name, Logger: slog.New(slog.DiscardHandler)}.Run(ctx) }()
		for _, want := range []string{"READY=1", "STOPPING=1"} {
			packet := make([]byte, 100)
			n, err := heard.Read(packet)
			if got := string(packet[:n]); err != nil || got != want {
				t.Errorf("%q: heard %q, want %q, %v", name, got, want, err)
			}
			cancel()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		heard.Close()
	}
}

func TestNotifierFails(t *testing.T) {
	for socket, says := range map[string]string{"": "", "relative": "is no unix socket", filepath.Join(t.TempDir(), "none"): "no such file"} {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		cancel()
		if err := (daemon.Notifier{Socket: socket, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Run(ctx); err != nil {
			t.Errorf("%q: %v", socket, err)
		}
		if got := log.String(); says == "" && got != "" || !strings.Contains(got, says) {
			t.Errorf("%q: logged %q, want %q", socket, got, says)
		}
	}
}
