package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAnnounce(t *testing.T) {
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
		stop := announce(ctx, func(string) string { return name }, slog.New(slog.NewTextHandler(io.Discard, nil)))
		cancel()
		for _, want := range []string{"READY=1", "STOPPING=1"} {
			packet := make([]byte, 100)
			n, err := heard.Read(packet)
			if got := string(packet[:n]); err != nil || got != want {
				t.Errorf("%q: heard %q, want %q, %v", name, got, want, err)
			}
		}
		if stop() {
			t.Error("nothing was said when the context ended")
		}
		heard.Close()
	}
}

func TestAnnounceFails(t *testing.T) {
	for socket, says := range map[string]string{"": "", "relative": "is no unix socket", filepath.Join(t.TempDir(), "none"): "no such file"} {
		var log bytes.Buffer
		announce(t.Context(), func(string) string { return socket }, slog.New(slog.NewTextHandler(&log, nil)))()
		if got := log.String(); says == "" && got != "" || !strings.Contains(got, says) {
			t.Errorf("%q: logged %q, want %q", socket, got, says)
		}
	}
}

// TestFirstAccount: the token of the first account is shown on a terminal, and never goes into the journal.
func TestFirstAccount(t *testing.T) {
	for _, c := range []struct {
		env   []string
		says  string
		token bool
	}{
		{nil, "account operator, API token, shown this once: msa_", true},
		{[]string{"INVOCATION_ID=0123"}, "account create NAME --scope '*'", false},
		{[]string{"JOURNAL_STREAM=8:1234"}, "account create NAME --scope '*'", false},
	} {
		dir, err := os.MkdirTemp("", "m")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		env := append([]string{asGateway + "=1", "INVOCATION_ID=", "JOURNAL_STREAM="}, c.env...)
		g := start(t, "gateway", env, os.Args[0], "serve", "--data", dir, "--listen", "127.0.0.1:0")
		g.await("mint a token with")
		h := &house{t: t, data: dir}
		if got := g.text(); !strings.Contains(got, c.says) || strings.Contains(got, "msa_") != c.token {
			t.Errorf("%v: %s", c.env, got)
		}
		if list := h.muster("account", "ls"); strings.Contains(list, "operator") != c.token {
			t.Errorf("%v: accounts\n%s", c.env, list)
		}
		h.muster("account", "create", "me", "--scope", "*")
		g.kill()
		again := start(t, "gateway", env, os.Args[0], "serve", "--data", dir, "--listen", "127.0.0.1:0")
		again.await("mint a token with")
		if got := again.text(); strings.Contains(got, "account") && strings.Contains(got, "API token") || strings.Contains(got, "account create") {
			t.Errorf("%v: once there is an account it still speaks of the first: %s", c.env, got)
		}
	}
}
