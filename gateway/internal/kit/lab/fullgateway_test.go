//go:build real

package lab_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/kit/lab"
)

// extended is how often the trial of a machine has got more time.
func (m *member) extended() int {
	state, _ := m.home()
	var record struct {
		Last struct{ Trial struct{ Extended int } }
	}
	_ = json.Unmarshal([]byte(m.box.Sh("cat "+state+"/update.json")), &record)
	return record.Last.Trial.Extended
}

// TestFullGateway fills the gateway's disk while a machine has a good version on trial. The gateway still answers what it only reads. The
// machine does not go back. Which way the trial goes on depends on the room that is left in SQLite's log: where the gateway could still
// record the trial, it takes the heartbeats into its memory, and the version proves itself. If it could not, it refuses them, and the
// trial gets more time. Package settle's tests provoke the second.
func TestFullGateway(t *testing.T) {
	t.Parallel() // with TestReleases and TestTrials: all wait most of the time
	l := lab.New(t)
	data := filepath.Join(l.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	l.Run("mount", "-t", "tmpfs", "-o", "size=256m,mode=700", "tmpfs", data)
	f := &fleet{T: t, lab: l, gateway: l.Gateway()}
	m := f.machines(&member{what: "systemd", root: lab.Systemd(), user: "root"})[0].member
	f.push(l.Stopping("9.1.0"), "9.1.0")
	m.box.StopAt("9.1.0 run 1 sync the folder of update.json") // before its first heartbeat
	f.promote("9.1.0")
	l.Within(time.Minute, "the new version begins its trial", m.box.Stopped)
	l.Run("sh", "-c", "dd if=/dev/zero of="+data+"/filler bs=64k 2>/dev/null || true; dd if=/dev/zero of="+data+
		"/crumbs bs=1 count=8192 2>/dev/null || true")
	m.box.GoOn()
	began := time.Now()
	l.Within(wire.TrialTime+time.Minute, "the trial gets more time, or ends well", func() bool {
		return m.extended() > 0 || m.last().Phase == wire.UpdateCommitted
	})
	t.Logf("after %s the machine says %+v", time.Since(began).Round(time.Second), m.last())
	if last := m.last(); last.Phase != wire.UpdateTrial && last.Phase != wire.UpdateCommitted {
		t.Errorf("with a full disk of the gateway the machine says %+v", last)
	}
	l.Run("rm", data+"/filler", data+"/crumbs")
	f.runs([]*member{m}, "9.1.0", wire.TrialTime)
}
