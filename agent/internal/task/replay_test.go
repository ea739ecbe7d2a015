package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/task"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

const year = 365 * 24 * time.Hour

// teach makes the gateway's clock differ, and says so with its next answer.
func (d *desk) teach(by time.Duration) {
	d.g.Now = func() time.Time { return time.Now().Add(by) }
	told := false
	d.refuse = func(string, string) *gatewaytest.Reply {
		if told {
			return nil
		}
		told = true
		now := d.g.Now().UTC()
		body, _ := json.Marshal(wire.Error{Error: wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "later"}, Time: &now})
		return &gatewaytest.Reply{Status: 503, Body: body}
	}
}

// TestExpiredByEitherClock: a gateway was taken over. It has signed documents of operators, and teaches whatever time it likes. What has
// expired by this machine's clock is not begun, nor what has expired by the gateway's.
func TestExpiredByEitherClock(t *testing.T) {
	for _, taught := range []time.Duration{-20 * year, -wire.MaxTaskLife, -2 * time.Hour, -time.Minute, 0, time.Minute, 2 * time.Hour, 20 * year} {
		for _, off := range []time.Duration{-20 * year, -2 * time.Hour, 0, 2 * time.Hour, 20 * year} { // this machine's own clock
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(40 * year)
				d := newDesk(t)
				d.local = func() time.Time { return time.Now().Add(off) }
				d.give(d.payload(wire.TaskDiagCollect, `{}`)) // for an hour, by the right clock
				expired := d.queue[0]
				d.queue = nil
				time.Sleep(90 * time.Minute)
				d.teach(taught)
				first := d.payload(wire.TaskAgentRestart, `{}`) // its refusal teaches the time
				first.Params = json.RawMessage(`{"x":1}`)
				d.give(first)
				go func() { time.Sleep(30 * time.Second); d.giveSigned(expired) }()
				d.run(2 * time.Minute)
				wrong := off <= -time.Hour && taught <= -time.Hour // nobody knows the time any more
				if begun := d.begun() > 0; begun && !wrong {
					t.Errorf("taught %v, own clock off by %v: it was begun\n%s", taught, off, d.log.String())
				}
			})
		}
	}
}

// TestExpiredInTurn: a task expires by either clock while it waits for another of its type. It is not begun.
func TestExpiredInTurn(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} { // this machine's own clock
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(year)
			d := newDesk(t)
			d.local = func() time.Time { return time.Now().Add(off) }
			d.handle = func(context.Context, task.Job) task.Outcome { time.Sleep(90 * time.Second); return task.Outcome{} }
			d.teach(0)
			wrong := d.payload(wire.TaskAgentRestart, `{"x":1}`) // its refusal teaches the time
			wrong.ExpiresAt = wrong.IssuedAt.Add(3 * time.Hour)
			d.give(wrong)
			first := d.payload(wire.TaskDiagCollect, `{}`)
			first.ExpiresAt = first.IssuedAt.Add(3 * time.Hour)
			p := d.payload(wire.TaskDiagCollect, `{}`)
			p.ExpiresAt = p.IssuedAt.Add(max(off, 0) + time.Minute)
			go func() { time.Sleep(20 * time.Second); d.give(first); time.Sleep(time.Second); d.give(p) }()
			d.run(3 * time.Minute)
			if r := d.result(p.TaskID); d.begun() != 1 || r.Status != wire.TaskExpired || d.result(first.TaskID).Status != wire.TaskCompleted {
				t.Errorf("own clock off by %v: %d begun, %+v", off, d.begun(), r)
			}
		})
	}
}

// TestOwnClockAhead: the result says that it is this machine's clock by which a task has expired.
func TestOwnClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.local = func() time.Time { return time.Now().Add(3 * time.Hour) }
		d.teach(0)
		first := d.give(d.payload(wire.TaskDiagCollect, `{"x":1}`))
		second := make(chan string, 1)
		go func() { time.Sleep(30 * time.Second); second <- d.diag() }()
		d.run(time.Minute)
		if d.begun() != 0 || d.result(first).Status != wire.TaskExpired {
			t.Errorf("%d begun, %+v", d.begun(), d.result(first))
		}
		if r := d.result(<-second); r.Status != wire.TaskExpired || !strings.Contains(r.Error, "3h0m0s ahead") || !strings.Contains(r.Error, "timedatectl") {
			t.Errorf("%+v", r)
		}
	})
}

// TestNotIssuedYet: what an operator's clock, or a gateway that teaches a later time, puts into the future is not begun.
func TestNotIssuedYet(t *testing.T) {
	for _, c := range []struct {
		issued, taught, off time.Duration
		begun               bool
	}{
		{wire.MaxTaskAhead - time.Minute, 0, 0, true},
		{wire.MaxTaskAhead + 2*time.Minute, 0, 0, false},
		{year, 0, 0, false},
		{year, year, 0, false},                         // the gateway says that it is time, and this machine knows better
		{12 * time.Hour, 12 * time.Hour, 0, true},      // so far a gateway may move it
		{0, 0, -12 * time.Hour, true},                  // a clock that is slow
		{0, 0, -20 * year, true},                       // a clock that nobody set: it stands before the certificate
		{year + time.Hour, 0, -20 * year, false},       // and the gateway's counts
		{-20*year + 2*time.Hour, 0, -20 * year, false}, // expired long ago
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(40 * year)
			d := newDesk(t)
			d.local = func() time.Time { return time.Now().Add(c.off) }
			p := d.payload(wire.TaskDiagCollect, `{}`)
			p.IssuedAt = p.IssuedAt.Add(c.issued)
			p.ExpiresAt = p.IssuedAt.Add(2 * 24 * time.Hour)
			d.teach(c.taught)
			first := d.payload(wire.TaskAgentRestart, `{"x":1}`)
			d.give(first)
			go func() { time.Sleep(30 * time.Second); d.give(p) }()
			d.run(2 * time.Minute)
			r := d.result(p.TaskID)
			if (d.begun() == 1) != c.begun || !c.begun && r.Code != wire.CodeClockSkew && r.Code != wire.CodeTaskExpired {
				t.Errorf("issued %v ahead, taught %v, own clock %v: %d begun, %+v", c.issued, c.taught, c.off, d.begun(), r)
			}
		})
	}
}

// TestReplays: whatever a gateway signs once counts once, whatever time it teaches in between, and however often the agent starts.
func TestReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(40 * year)
		d := newDesk(t)
		d.diag()
		signed := d.queue[0]
		d.run(time.Minute)
		for i, taught := range []time.Duration{-20 * year, 20 * year, -time.Hour, 0, 8 * 24 * time.Hour, -8 * 24 * time.Hour} {
			d.teach(taught)
			d.give(d.payload(wire.TaskAgentRestart, fmt.Sprintf(`{"x":%d}`, i)))
			d.giveSigned(signed)
			d.run(time.Minute)
			time.Sleep(4 * 24 * time.Hour) // it expires, and its name is forgotten
		}
		if d.begun() != 1 {
			t.Errorf("begun %d times", d.begun())
		}
	})
}

// TestDamageAtStarted: the line that says that a task began is damaged, and the gateway gives the task again.
func TestDamageAtStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id := d.diag()
		signed := d.queue[0]
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "result" {
				return gatewaytest.Refusal(503, wire.CodeUnavailable)
			}
			return nil
		}
		d.run(10 * time.Second)
		d.refuse = nil
		lines := strings.SplitAfter(d.journal(), "\n")
		lines[2] = strings.Replace(lines[2], `"started"`, `"sdarted"`, 1) // behind the horizon and accepted
		d.rewrite(strings.Join(lines[:3], ""))
		d.giveSigned(signed)
		d.run(time.Minute)
		if r := d.result(id); d.begun() != 1 || r.Code != wire.TaskInterrupted || !strings.Contains(r.Error, "damaged") {
			t.Errorf("begun %d times: %+v", d.begun(), r)
		}
		later := d.diag() // issued after the damage was found
		d.run(time.Minute)
		if r := d.result(later); r.Status != wire.TaskCompleted {
			t.Errorf("%+v", r)
		}
		d.rewrite(strings.Replace(d.journal(), `"reported"`, `"rep0rted"`, 1)) // the names
		d.giveSigned(signed)
		d.run(time.Minute)
		if d.begun() != 2 {
			t.Errorf("begun %d times", d.begun())
		}
	})
}

func (d *desk) rewrite(journal string) {
	if err := os.WriteFile(filepath.Join(d.cfg.Folder, task.JournalFile), []byte(journal), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// TestGatewayKnowsBetter: the last line of the journal was cut off. The gateway says that the task had begun before.
func TestGatewayKnowsBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id := d.diag()
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "result" {
				return gatewaytest.Refusal(503, wire.CodeUnavailable)
			}
			return nil
		}
		d.run(10 * time.Second)
		d.refuse = func(step, _ string) *gatewaytest.Reply {
			if step == "started" {
				return d.g.JSON(200, wire.TaskProgress{Begun: true})
			}
			return nil
		}
		lines := strings.SplitAfter(d.journal(), "\n")
		d.rewrite(strings.Join(lines[:2], "") + lines[2][:len(lines[2])/2])
		d.run(time.Minute)
		if r := d.result(id); d.begun() != 1 || r.Code != wire.TaskInterrupted || r.Status != wire.TaskFailed {
			t.Errorf("begun %d times: %+v", d.begun(), r)
		}
		raw, _ := json.Marshal(d.payload(wire.TaskDiagCollect, `{}`))
		d.giveSigned(sign.SealTask(d.key, raw)) // with a whole journal, an answer may only have been lost
		d.run(time.Minute)
		if d.begun() != 2 {
			t.Errorf("begun %d times", d.begun())
		}
	})
}

// TestReplayedWithAnotherClock: a gateway that sets the clock back cannot have an old task done again, though its name was forgotten.
func TestReplayedWithAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour) // a time before the year 2000 is no clock's
		d := newDesk(t)
		id := d.diag()
		signed := d.queue[0]
		d.run(time.Minute)
		time.Sleep(2 * time.Hour)
		d.run(time.Minute) // writes the journal anew
		if !strings.Contains(d.journal(), id) {
			t.Fatalf("forgotten as soon as it has expired: %s", d.journal())
		}
		time.Sleep(wire.MaxTaskLife)
		d.run(time.Minute)
		if strings.Contains(d.journal(), id) {
			t.Fatalf("not forgotten: %s", d.journal())
		}
		d.g.Now = func() time.Time { return time.Now().Add(-wire.MaxTaskLife - 3*time.Hour) }
		d.giveSigned(signed)
		d.run(time.Minute)
		if d.begun() != 1 || len(d.queue) != 0 {
			t.Errorf("begun %d times, %d not asked for", d.begun(), len(d.queue))
		}
	})
}
