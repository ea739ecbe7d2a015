package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/logs"
	"muster/gateway/internal/reply"
	"muster/store"
)

// journal is a node in this process: its logs by source. If it is followed, it ends the log behind its last line, unless it stays.
type journal struct {
	mu    sync.Mutex
	lines map[string][]wire.LogLine
	stays bool
}

func (j *journal) open(_ context.Context, _ string, p wire.LogsParams) (io.ReadCloser, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out bytes.Buffer
	if _, known := j.lines[p.Source]; !known {
		refused := wire.SessionRefused{Code: wire.CodeNotFound, Message: "there is no " + p.Source}
		err := pipe.WriteJSON(&out, pipe.FrameRefused, refused)
		return io.NopCloser(&out), err
	}
	for _, l := range j.lines[p.Source] {
		if l.Time.Before(p.Since) {
			continue
		}
		raw, err := json.Marshal(l)
		if err == nil {
			err = pipe.WriteFrame(&out, pipe.FrameOutput, append(raw, '\n'))
		}
		if err != nil {
			return nil, err
		}
	}
	if !p.Follow || !j.stays {
		return io.NopCloser(&out), pipe.WriteJSON(&out, pipe.FrameExit, pipe.Exit{})
	}
	from, to := io.Pipe()
	go func() { _, _ = to.Write(out.Bytes()) }()
	return from, nil
}

// newLogHouse has two nodes with the same logs.
func newLogHouse(t *testing.T) (*house, *journal) {
	h := newHouse(t)
	at := h.now.Add(-time.Minute)
	j := &journal{lines: map[string][]wire.LogLine{
		"agent": {
			{Time: at, Level: "info", Message: "begun", Fields: map[string]string{"task": "x y", "id": "7"}},
			{Time: at.Add(2 * time.Second), Level: "error", Message: "\x1b[2Jred\ttab\r\n\x00\u202e", Cut: 9},
			{Time: at.Add(3 * time.Second), Dropped: 12, Message: "the agent was too slow"},
		},
		"kernel": {{Time: at.Add(time.Second), Message: "NVRM: Xid"}},
		"boot":   {},
	}}
	now := h.now // a copy: pauses of the command line move the house's clock, and the hub reads from elsewhere
	h.api.Logs = logs.New(logs.Config{Open: j.open, Now: func() time.Time { return now }})
	for _, name := range []string{"gpu-1", "gpu-2"} {
		h.node(store.Node{Name: name, Tenant: "platform"}, time.Second, "")
	}
	h.dir = h.listen()
	return h, j
}

// TestNodeLogs: the text form, with what is missing, and without anything that a terminal would obey.
func TestNodeLogs(t *testing.T) {
	h, _ := newLogHouse(t)
	const plain = "2026-11-21 09:59:00.000 info  begun id=7 task=\"x y\"\n" +
		`2026-11-21 09:59:02.000 error \x1b[2Jred    tab\x0d\x0a\x00\u202e [9 more bytes]` + "\n" +
		"2026-11-21 09:59:03.000 --- 12 lines are missing here: the agent was too slow\n"
	if got := h.done("node", "logs", "gpu-1", "--utc"); got != plain {
		t.Errorf("got:\n%q\nwant:\n%q", got, plain)
	}
	merged := h.done("node", "logs", "gpu-1", "--utc", "--source", "agent", "--source", "kernel", "--lines", "3")
	const three = "2026-11-21 09:59:01.000       kernel NVRM: Xid\n" +
		`2026-11-21 09:59:02.000 error agent \x1b[2Jred    tab\x0d\x0a\x00\u202e [9 more bytes]` + "\n" +
		"2026-11-21 09:59:03.000 --- agent: 12 lines are missing here: the agent was too slow\n"
	if merged != three {
		t.Errorf("merged:\n%q\nwant:\n%q", merged, three)
	}
	grep := h.done("node", "logs", "gpu-1", "gpu-2", "--utc", "--source", "kernel", "--grep", "xid|Xid", "--since", "5m")
	const both = "gpu-1: 2026-11-21 09:59:01.000       NVRM: Xid\ngpu-2: 2026-11-21 09:59:01.000       NVRM: Xid\n"
	if grep != both {
		t.Errorf("two nodes:\n%q", grep)
	}
	var one struct {
		Node string
		wire.LogLine
	}
	asJSON := h.done("node", "logs", "-l", "name=gpu-2", "--source", "kernel", "-o", "json")
	if err := json.Unmarshal([]byte(asJSON), &one); err != nil || one.Node != "gpu-2" || one.Message != "NVRM: Xid" || one.Received == nil {
		t.Errorf("%+v, %v", one, err)
	}
	h.screen = 80
	if got := h.done("node", "logs", "gpu-1", "--utc"); !strings.Contains(got, "\x1b[31m error \x1b[0m") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("on a terminal: %q", got)
	}
	h.env["NO_COLOR"] = "1"
	if got := h.done("node", "logs", "gpu-1", "--utc"); got != plain {
		t.Errorf("without colours: %q", got)
	}
}

// TestNodeLogsRefused: what cannot be read says what to do, and one node of several does not keep the others back.
func TestNodeLogsRefused(t *testing.T) {
	h, _ := newLogHouse(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"gpu-1 --source colour", 2, "the sources are agent"},
		{"gpu-1 --since yesterday", 2, "neither a duration nor a time"},
		{"gpu-1 --since -5m", 2, "neither a duration nor a time"},
		{"gpu-1 --lines 0", 2, "whole number from 1"},
		{"gpu-1 -n 0", 2, "whole number from 1"},
		{"gpu-1 --tail=0", 2, "whole number from 1"},
		{"gpu-1 --grep (", 1, "no regular expression"},
		{"gpu-1 -o table", 2, "one of text, json"},
		{"", 2, "which nodes?"},
		{"gpu-9", 1, "muster run logs gpu-9 shows what a program has written"},
		{"gpu-1 --source unit:nginx", 1, "muster help logs lists the sources"},
		{"gpu-1 -f --source unit:nginx", 1, "muster help logs lists the sources"},
		{"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 -f", 2, "at most 16"},
	} {
		code, out, errs := h.muster(append([]string{"node", "logs"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("%q: code %d\n%s\n%s", c.args, code, out, errs)
		}
	}
	code, out, errs := h.muster("node", "logs", "gpu-9", "gpu-1", "--source", "kernel")
	if code != 1 || !strings.Contains(out, "gpu-1: ") || !strings.Contains(errs, "muster: gpu-9: ") {
		t.Errorf("code %d\n%s\n%s", code, out, errs)
	}
	code, out, errs = h.muster("node", "logs", "gpu-1", "--source", "boot")
	if code != 0 || out != "" || !strings.Contains(errs, "--since 7d") {
		t.Errorf("no lines: code %d\n%s\n%s", code, out, errs)
	}
}

// TestNodeLogsFollow: -f ends with 0 where a person ends it, and where the log ends by itself.
func TestNodeLogsFollow(t *testing.T) {
	h, j := newLogHouse(t)
	code, out, errs := h.muster("node", "logs", "gpu-1", "-f", "--source", "kernel")
	if code != 0 || !strings.HasSuffix(out, " --- kernel: the log has ended\n") {
		t.Errorf("a log that ends: code %d\n%s\n%s", code, out, errs)
	}
	j.stays = true
	h.api.Logs = logs.New(logs.Config{Open: j.open})
	ctx, cancel := context.WithCancel(t.Context())
	routes := h.api.Routes()
	h.dir = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/logs") {
			w = &watched{w, func(text string) {
				if strings.Contains(text, "Xid") {
					cancel()
				}
			}}
		}
		routes.ServeHTTP(w, r)
	}))
	code, _, errs = h.run(ctx, "--data", h.dir, "node", "logs", "gpu-1", "-f", "--source", "kernel")
	if code != 0 || errs != "" {
		t.Errorf("interrupted: code %d\n%s", code, errs)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	_ = h.api.Logs.Run(ended)
}

// watched tells what is written.
type watched struct {
	http.ResponseWriter
	tell func(string)
}

func (w *watched) Write(text []byte) (int, error) {
	n, err := w.ResponseWriter.Write(text)
	w.tell(string(text))
	return n, err
}

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestNodeLogsRestart: a gateway that goes away and comes back is asked from the last line on, and what is known is not shown again.
func TestNodeLogsRestart(t *testing.T) {
	h, j := newLogHouse(t)
	routes := h.api.Routes()
	var asked atomic.Int32
	refuse := reply.JSON(wire.Error{Error: wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "the gateway stops"}})
	h.dir = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/logs") {
			routes.ServeHTTP(w, r)
			return
		}
		switch asked.Add(1) {
		case 1: // it is cut behind the first lines
			routes.ServeHTTP(&cut{w}, r)
		case 2:
			reply.Write(w, http.StatusServiceUnavailable, refuse)
		case 3:
			panic(http.ErrAbortHandler)
		default:
			j.mu.Lock()
			last := j.lines["agent"][2].Time
			j.lines["agent"] = append(j.lines["agent"], wire.LogLine{Time: last.Add(time.Second), Message: "new"})
			j.mu.Unlock()
			routes.ServeHTTP(w, r)
		}
	}))
	code, out, errs := h.muster("node", "logs", "gpu-1", "-f", "--source", "agent,kernel")
	if code != 0 || strings.Count(out, "begun") != 1 || strings.Count(out, "Xid") != 1 || strings.Count(out, " new\n") != 1 ||
		strings.Count(errs, "trying again") != 1 || strings.Count(errs, "answers again") != 1 {
		t.Errorf("asked %d times, code %d\n%s\n%s", asked.Load(), code, out, errs)
	}
}

// TestNodeLogsMuch: however much the node wrote while the follower was away, every line is shown once, and none is said to be missing.
func TestNodeLogsMuch(t *testing.T) {
	h, j := newLogHouse(t)
	begin := h.now // pauses of the command line move it
	numbered := func(from, to int, text string) (lines []wire.LogLine) {
		for n := from; n < to; n++ {
			lines = append(lines, wire.LogLine{Time: begin.Add(time.Duration(n/2) * time.Second), Message: fmt.Sprint(n, text)})
		}
		return lines
	}
	const before, all = 6, 126 // the last two before the break have one time
	j.lines["agent"] = numbered(0, before, "")
	routes := h.api.Routes()
	var asked atomic.Int32
	h.dir = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/logs") && asked.Add(1) == 1 {
			w = &cut{w}
		} else if strings.HasSuffix(r.URL.Path, "/logs") {
			j.mu.Lock()
			j.lines["agent"] = numbered(0, all, strings.Repeat("x", 50<<10))
			copy(j.lines["agent"], numbered(0, before, ""))
			j.mu.Unlock()
		}
		routes.ServeHTTP(w, r)
	}))
	code, out, errs := h.muster("node", "logs", "gpu-1", "-f", "-o", "json")
	shown, missing := 0, int64(0)
	for line := range strings.Lines(out) {
		var l wire.LogLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%.80s: %v", line, err)
		}
		missing += l.Dropped
		if l.Dropped == 0 && l.Source != wire.LogGateway {
			shown++
		}
	}
	if code != 0 || missing != 0 || shown != all {
		t.Errorf("code %d, %d lines are shown and %d missing, of %d\n%s", code, shown, missing, all, errs)
	}
}

// cut is an answer that breaks off behind its first piece.
type cut struct{ http.ResponseWriter }

func (c *cut) Write(text []byte) (int, error) {
	if _, err := c.ResponseWriter.Write(text); err != nil {
		return 0, err
	}
	if err := http.NewResponseController(c.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	panic(http.ErrAbortHandler)
}

func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }
