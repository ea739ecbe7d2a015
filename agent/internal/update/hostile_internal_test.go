package update

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
)

// TestGatewayComesBackLate: a gateway that was away accepts the first heartbeat late in the trial. The version that reaches it is no
// failure. Else all nodes on trial would go back when a gateway comes back.
func TestGatewayComesBackLate(t *testing.T) {
	for _, away := range []time.Duration{40 * time.Second, 65 * time.Second, 75 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.run(time.Hour)
			n.settle()
			n.away = time.Now().Add(away)
			guard := Verdict{}
			time.AfterFunc(wire.TrialTime+3*time.Second, func() {
				at := time.Now()
				guard = Settle(context.Background(), Settling{Base: n.Base, Running: true, Call: func(context.Context) error { return nil },
					clock: func() (string, int64) { return "one", at.UnixMilli() }})
			})
			if err := n.run(2 * time.Minute); err != nil || n.Good() != hexOf(n.layer) || n.Current() != n.Good() {
				t.Errorf("away for %v: %v, the guard %+v, said %q", away, err, guard, n.said)
			}
		})
	}
}

// TestGatewayComesBackAndGoes: one heartbeat late in the trial is not enough, and does not hold up the way back for long.
func TestGatewayComesBackAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.run(time.Hour)
		n.settle()
		n.away = time.Now().Add(80 * time.Second)
		n.gone = time.Now().Add(85 * time.Second)
		began := time.Now()
		err := n.run(time.Hour)
		if lived := time.Since(began); !errors.Is(err, ErrNotProven) || lived < wire.TrialTime || lived > wire.TrialTime+lateTime {
			t.Errorf("%v after %v", err, lived)
		}
		if v := n.settle(); v.Decision != GoBack {
			t.Errorf("%+v", v)
		}
	})
}

// TestTaskComesDuringTheFetch: a task that begins while a release is fetched holds the trial up. What was fetched is not fetched again.
func TestTaskComesDuringTheFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.tasks = []int{2, 4, 6}
		n.run(time.Hour)
		if !n.restarted || len(n.ranges.get()) != 1 || n.held != 8 {
			t.Errorf("restarted %t, asked %d times, fetched %d times", n.restarted, n.held, len(n.ranges.get()))
		}
	})
}

// TestInstalledInATrial: somebody installs a third version while one is on trial. That is no failure of the release.
func TestInstalledInATrial(t *testing.T) {
	p := newPlace(t)
	p.settle()
	p.amend(func(r *Record) { r.Node = "n1" })
	third := build(t, p.files, "third")
	if err := p.SetCurrent(third); err != nil {
		t.Fatal(err)
	}
	if v := p.settle(); v.Decision != GoOn || p.Current() != third {
		t.Errorf("%+v", v)
	}
	u := New(Config{Folder: p.Base, State: newFleet(t).state(), Digest: digestPrefix + third})
	if said := u.Report(); said.Phase != "" || len(u.record.Failed) > 0 {
		t.Errorf("%+v, failed %+v", said, u.record.Failed)
	}
}

// TestBytesThatAreNoText: what a failed version has said may be no text. The gateway takes the report all the same.
func TestBytesThatAreNoText(t *testing.T) {
	p := newPlace(t)
	line := strings.Repeat("\xff", 200) + "\n"
	if err := os.WriteFile(p.LastWords(), []byte(strings.Repeat(line, 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.amend(func(r *Record) { r.Last.Trial.Starts = 1; r.Node = "n1" })
	if err := p.SetCurrent(p.old); err != nil {
		t.Fatal(err)
	}
	u := New(Config{Folder: p.Base, State: newFleet(t).state(), Digest: digestPrefix + p.old})
	u.record.end(wire.UpdateRolledBack, wire.UpdateNoRoom, strings.Repeat("\xff", 5000))
	u.record.Last.Release = digestPrefix + p.new
	raw, err := json.Marshal(u.Report())
	if err != nil {
		t.Fatal(err)
	}
	var arrived wire.Update
	if err := json.Unmarshal(raw, &arrived); err != nil {
		t.Fatal(err)
	}
	if err := wire.CheckUpdate(&arrived); err != nil || arrived.Log == "" || arrived.Detail == "" {
		t.Errorf("%v: %d bytes of log, %d of detail", err, len(arrived.Log), len(arrived.Detail))
	}
}

// TestMachineStartsNothing: a machine that is out of processes says nothing about a release.
func TestMachineStartsNothing(t *testing.T) {
	for _, err := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		failed := fmt.Errorf("fork/exec: %w", &os.PathError{Op: "fork/exec", Path: "x", Err: err})
		if code := codeOf(judgeTest(failed, ""), ""); code != wire.UpdateNoRoom {
			t.Errorf("%v: %s", err, code)
		}
	}
	if code := codeOf(judgeTest(&os.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOEXEC}, ""), ""); code != wire.UpdateSelfTest {
		t.Error(code)
	}
	for text, want := range map[string]string{"": "run here: it ends, and it wrote nothing", " \n": "and it wrote nothing", "why": "it ends: why"} {
		if err := judgeTest(errors.New("it ends"), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
