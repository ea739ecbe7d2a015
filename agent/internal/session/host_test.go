package session_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestHostile: a document that is not for this node, not of now, or not understood opens nothing, and the operator learns why.
func TestHostile(t *testing.T) {
	d := newDesk(t)
	time.Sleep(time.Millisecond)
	for _, c := range []struct {
		what   string
		change func(*wire.TaskPayload)
		code   string
	}{
		{"another node", func(p *wire.TaskPayload) { p.NodeID = "n-other" }, wire.CodeWrongNode},
		{"another enrolment", func(p *wire.TaskPayload) { p.Enrolment = "before" }, wire.CodeWrongNode},
		{"expired", func(p *wire.TaskPayload) { p.ExpiresAt = time.Now() }, wire.CodeTaskExpired},
		{"of the agent before", func(p *wire.TaskPayload) { p.IssuedAt = p.IssuedAt.Add(-time.Hour) }, wire.CodeTaskExpired},
		{"of later", func(p *wire.TaskPayload) { p.IssuedAt = p.IssuedAt.Add(time.Hour) }, wire.CodeBadRequest},
		{"for ever", func(p *wire.TaskPayload) { p.ExpiresAt = p.ExpiresAt.Add(wire.MaxTaskLife) }, wire.CodeBadRequest},
		{"an unknown type", func(p *wire.TaskPayload) { p.Type = "session.rm" }, wire.CodeTaskTypeUnknown},
		{"a type without a server", func(p *wire.TaskPayload) {
			p.Type = wire.SessionLogs
			p.Params = json.RawMessage(`{"source":"agent"}`)
		}, wire.CodeTaskTypeUnknown},
		{"unknown params", func(p *wire.TaskPayload) { p.Params = json.RawMessage(`{"command":["true"],"sudo":true}`) },
			wire.CodeTaskParamsInvalid},
		{"wrong params", func(p *wire.TaskPayload) { p.Params = json.RawMessage(`{}`) }, wire.CodeTaskParamsInvalid},
		{"no params", func(p *wire.TaskPayload) { p.Params = nil }, wire.CodeTaskParamsInvalid},
		{"no such user", func(p *wire.TaskPayload) { p.Params = json.RawMessage(`{"command":["true"],"user":"eve"}`) },
			wire.CodeTaskParamsInvalid},
	} {
		p := d.document(wire.SessionExec, `{"command":["true"]}`)
		c.change(&p)
		if r := d.openAs(p).refused(); r.Code != c.code || r.Message == "" {
			t.Errorf("%s: %+v, want %s", c.what, r, c.code)
		}
	}
	bad := d.document(wire.SessionExec, `{"command":["true"]}`)
	bad.TaskID = "../../x"
	d.host.Open(d.state, bad, nil)
	if n := len(d.g.Requests("/x/channels/0")); n > 0 {
		t.Errorf("%d requests for an id that is none", n)
	}
}

// TestReplay: a document that comes twice opens one session, and does not disturb it.
func TestReplay(t *testing.T) {
	d := newDesk(t)
	p := d.document(wire.SessionExec, `{"command":["cat"]}`)
	o := d.openAs(p)
	o.ready()
	d.host.Open(d.state, p, nil)
	o.send(pipe.FrameInput, "x")
	o.send(pipe.FrameInputEnd, "")
	if out, exit := o.exit(); out != "x" || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	n := len(d.g.Requests("/channels/0"))
	d.host.Open(d.state, p, nil)
	if got := len(d.g.Requests("/channels/0")); got != n {
		t.Errorf("a session that has ended is opened again: %d requests", got-n)
	}
}

// TestPolicy: the node's owner has the last word, anew for each session.
func TestPolicy(t *testing.T) {
	d := newDesk(t)
	for _, text := range []string{
		`{"forbid":["session.exec"]}`, `{"allow":["session.shell"]}`, `{"session_users":["other"]}`, `not JSON`,
		`{"operator_keys":{"session.*":["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="]}}`,
	} {
		d.policy(text)
		if r := d.open(wire.SessionExec, `{"command":["true"]}`).refused(); r.Code != wire.CodeTaskForbidden {
			t.Errorf("%s: %+v", text, r)
		}
	}
	d.policy(`{"allow":["session.exec"],"session_users":["ada"]}`)
	o := d.open(wire.SessionExec, `{"command":["true"]}`)
	o.ready()
	if _, exit := o.exit(); exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
}

// inTime is a desk in synthetic time. Its sessions of logs last until their context is done, and tell why that is.
func inTime(t *testing.T, ends chan error) (*desk, *gatewaytest.Pipe) {
	d := prepare(t)
	network := gatewaytest.ServePipe(t, d.g, nil)
	d.cfg.Logs = func(ctx context.Context, main *pipe.End, _ *wire.LogsParams) (pipe.Exit, error) {
		_ = pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{})
		<-ctx.Done()
		ends <- context.Cause(ctx)
		return pipe.Exit{}, nil
	}
	d.begin(transport.Config{Gateway: "http://" + gatewaytest.Host, Dial: network.Dial})
	return d, network
}

// TestBounds: a session that is idle for too long, or lasts too long, is ended by the node.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		bounds string
		lasts  time.Duration
		why    string
	}{
		{`"idle_seconds":60`, time.Minute, "nothing happened"},
		{`"idle_seconds":600,"limit_seconds":90`, 90 * time.Second, "as long as it may"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := inTime(t, make(chan error, 1))
			began := time.Now()
			o := d.open(wire.SessionLogs, `{"source":"agent",`+c.bounds+`}`)
			o.ready()
			_, exit := o.exit()
			if took := time.Since(began); !strings.Contains(exit.Error, c.why) || took < c.lasts || took > c.lasts+time.Second {
				t.Errorf("%s: %+v after %s", c.bounds, exit, took)
			}
			o.main.Close()
			d.stop()
		})
	}
}

// TestGatewayAway: a gateway that is away for less than the bridge is waited for. One that is away for longer has lost the session.
func TestGatewayAway(t *testing.T) {
	for _, away := range []time.Duration{wire.SessionBridge / 2, 3 * wire.SessionBridge} {
		synctest.Test(t, func(t *testing.T) {
			ends := make(chan error, 1)
			d, network := inTime(t, ends)
			var down atomic.Bool
			network.Down = down.Load
			o := d.open(wire.SessionLogs, `{"source":"agent"}`)
			o.ready()
			time.Sleep(time.Second)
			down.Store(true)
			d.cfg.Client.Close()
			time.Sleep(away)
			down.Store(false)
			time.Sleep(time.Minute)
			lost := len(ends) == 1
			if lost != (away > wire.SessionBridge) {
				t.Errorf("away for %s: lost %v", away, lost)
			}
			o.main.Close()
			d.stop()
		})
	}
}

// TestHold: an update waits for sessions, keeps new ones out while it begins, and ends those that last longer than an hour.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan error, 10)
		d, _ := inTime(t, ends)
		release, ok := d.host.Hold()
		if !ok {
			t.Fatal("there is no session")
		}
		early := d.open(wire.SessionLogs, `{"source":"agent"}`)
		if r := early.refused(); r.Code != wire.CodeUnavailable {
			t.Errorf("%+v", r)
		}
		release()
		time.Sleep(time.Minute)
		o := d.open(wire.SessionLogs, `{"source":"agent"}`)
		o.ready()
		began := time.Now()
		held := false
		for !held {
			time.Sleep(10 * time.Second)
			_, held = d.host.Hold()
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("held after %s", took)
		}
		if _, exit := o.exit(); !strings.Contains(exit.Error, "updated") || !strings.Contains(o.notice, "updated") {
			t.Errorf("%+v, %q", exit, o.notice)
		}
		o.main.Close()
		early.main.Close()
		d.stop()
	})
}

// TestHoldStuck: a session that does not end when it is told to holds up no update for ever.
func TestHoldStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		d := prepare(t)
		network := gatewaytest.ServePipe(t, d.g, nil)
		d.cfg.Logs = func(_ context.Context, main *pipe.End, _ *wire.LogsParams) (pipe.Exit, error) {
			_ = pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{})
			<-free // as a disk that does not answer
			return pipe.Exit{}, nil
		}
		d.begin(transport.Config{Gateway: "http://" + gatewaytest.Host, Dial: network.Dial})
		o := d.open(wire.SessionLogs, `{"source":"agent"}`)
		o.ready()
		began := time.Now()
		held := false
		for !held && time.Since(began) < 2*time.Hour {
			time.Sleep(time.Minute)
			_, held = d.host.Hold()
		}
		if took := time.Since(began); !held || took < time.Hour+time.Minute {
			t.Errorf("held %v after %s", held, took)
		}
		close(free)
		o.main.Close()
		d.stop()
	})
}

// TestClockSetBack: a document that has expired stays expired, also if the gateway sets its clock back.
func TestClockSetBack(t *testing.T) {
	d := newDesk(t)
	p := d.document(wire.SessionExec, `{"command":["true"]}`)
	o := d.openAs(p)
	o.ready()
	o.exit()
	d.idle() // a document of a session that is open still is ignored
	now := d.cfg.Client.Now()
	d.cfg.Client.LearnTime(now.Add(time.Hour))
	d.open(wire.SessionExec, `{"command":["true"]}`).refused() // it makes the host forget old documents
	d.cfg.Client.LearnTime(now)
	delete(d.all, p.TaskID)
	if r := d.openAs(p).refused(); r.Code != wire.CodeTaskExpired {
		t.Errorf("%+v", r)
	}
}

// TestExpiredByOwnClock: a gateway that teaches an earlier time brings no document back.
func TestExpiredByOwnClock(t *testing.T) {
	d := newDesk(t)
	p := d.document(wire.SessionExec, `{"command":["true"]}`)
	p.IssuedAt = p.IssuedAt.Add(-wire.MaxSessionWait)
	p.ExpiresAt = p.ExpiresAt.Add(-wire.MaxSessionWait)
	d.cfg.Client.LearnTime(d.cfg.Client.Now().Add(-wire.MaxSessionWait))
	r := d.openAs(p).refused()
	if r.Code != wire.CodeTaskExpired || !strings.Contains(r.Message, "had it; the node's clock is 1m0s ahead") ||
		!strings.Contains(r.Message, "timedatectl") {
		t.Errorf("%+v", r)
	}
}

// TestBeforeTheAgentByOwnClock: nor one that the process before may have opened.
func TestBeforeTheAgentByOwnClock(t *testing.T) {
	d := newDesk(t)
	p := d.document(wire.SessionExec, `{"command":["true"]}`)
	p.IssuedAt = p.IssuedAt.Add(-wire.MaxSessionWait / 2)
	d.cfg.Client.LearnTime(p.IssuedAt)
	if r := d.openAs(p).refused(); r.Code != wire.CodeTaskExpired || !strings.Contains(r.Message, "before the agent") {
		t.Errorf("%+v", r)
	}
}

// TestPanic: a fault in one session is told, and ends no other one.
func TestPanic(t *testing.T) {
	d := prepare(t)
	d.cfg.Logs = func(context.Context, *pipe.End, *wire.LogsParams) (pipe.Exit, error) { panic("oh") }
	d.begin(transport.Config{Gateway: gatewaytest.Listen(t, d.g, nil)})
	if r := d.open(wire.SessionLogs, `{"source":"agent"}`).refused(); !strings.Contains(r.Message, "fault") {
		t.Errorf("%+v", r)
	}
	o := d.open(wire.SessionExec, `{"command":["true"]}`)
	o.ready()
	o.exit()
}
