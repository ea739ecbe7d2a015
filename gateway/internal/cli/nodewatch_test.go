package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// TestNodeWatch: in a pipe, node ls --watch prints a line for each node and for each change, until it is interrupted.
func TestNodeWatch(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "gpu-1", Tenant: "platform"}, time.Second, `{"probe":{"state":"ok"},"gpus":[]}`)
	h.node(store.Node{Name: "gpu-2", Tenant: "research"}, time.Second, `{"probe":{"state":"ok"},"gpus":[]}`)
	h.api.Streams = livestream.New()
	h.api.Overview.Load(t.Context())
	dir := h.listen()
	ctx, interrupt := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	var errs bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(ctx, cli.Env{Args: []string{"--data", dir, "node", "ls", "--watch", "-l", "tenant=platform"},
			Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: writer, Stderr: &errs,
			Now: func() time.Time { return h.now }}, commands.All())
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("no more lines: exit code %d: %s", <-done, errs.String())
		}
		return lines.Text()
	}
	if got := next(); !strings.HasSuffix(got, " gpu-1 state=active status=online gpus=0 reasons=- findings=-") {
		t.Errorf("got %s", got)
	}
	h.api.Overview.Findings("id-gpu-2", []api.Finding{{Rule: "gpu_hot"}})
	h.api.Overview.Findings("id-gpu-1", []api.Finding{{Rule: "disk_full"}})
	if got := next(); !strings.Contains(got, " gpu-1 ") || !strings.HasSuffix(got, "findings=disk_full") {
		t.Errorf("got %s", got)
	}
	interrupt()
	for lines.Scan() {
		t.Errorf("got %s", lines.Text())
	}
	if code := <-done; code != 1 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

// TestNodeWatchRefuses: a wrong use is named before anything is printed.
func TestNodeWatchRefuses(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-o json", 2, "--output"}, {"--watch=7", 2, "--watch"}, {"--idle=7", 2, "--idle"}, {"-l tier=,", 1, "empty term"},
		{"--status dead", 2, "--status"},
	} {
		code, out, errs := h.muster(append([]string{"node", "ls", "--watch"}, strings.Fields(c.args)...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d: %s%s", c.args, code, out, errs)
		}
	}
}
