//go:build real

package lab_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

const unit = "muster-agent.service"

// TestSystemd takes one machine with systemd through an agent's life.
func TestSystemd(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Systemd(), "root", func(*lab.Box) {})
	s.step("check first")
	s.check()
	s.step("install")
	s.install()
	s.tokenNowhere()
	s.unit()
	s.step("the same command again")
	s.again()
	s.step("kill -9 the agent")
	s.killAgent()
	s.step("the gateway goes away and comes back")
	s.away()
	s.step("upgrade in place")
	s.upgrade()
	s.work.Unharmed()
	s.notReloaded()
	s.step("reboot")
	start := time.Now()
	s.box.Reboot()
	s.back(time.Minute, start)
	s.step("reboot while the gateway is away")
	s.rebootAlone()
	s.work = s.box.Workload()
	s.step("leave")
	s.leave()
	s.work.Unharmed()
	s.notReloaded()
	s.reloadIsSeen()
	s.unknown()
}

// check asks whether joining would work: that changes nothing and leaves the token good.
func (s *scene) check() {
	s.Helper()
	s.Log(s.paste(s.token.Command + " --check"))
	if more := lab.Differences(s.before, s.box.Tree()); len(more) > 0 || len(s.gateway.Nodes()) > 0 {
		s.Errorf("join --check changed %q, and the nodes are %+v", more, s.gateway.Nodes())
	}
}

func (s *scene) show(property string) string {
	return s.box.Sh("systemctl show --property " + property + " --value " + unit)
}

// unit expects what keeps the agent alive and the machine unharmed.
func (s *scene) unit() {
	s.Helper()
	for property, want := range map[string]string{
		"ActiveState": "active", "SubState": "running", "Type": "notify", "NotifyAccess": "main", "Restart": "always",
		"WatchdogUSec": "1min", "StartLimitIntervalUSec": "0", "UnitFileState": "enabled", "NeedDaemonReload": "no", "NRestarts": "0",
	} {
		if got := s.show(property); got != want {
			s.Errorf("%s=%s, want %s", property, got, want)
		}
	}
	if got := s.show("KillMode"); got != "mixed" && got != "process" {
		s.Errorf("KillMode=%s kills what the agent runs", got)
	}
	const fed = "WatchdogTimestampMonotonic"
	last := s.show(fed)
	s.lab.Until("the watchdog is fed", func() bool { return s.show(fed) != last })
	if loose := s.box.Sh("systemd-analyze verify /etc/systemd/system/" + unit + " 2>&1 | grep -F " + unit + " || true"); loose != "" {
		s.Errorf("systemd-analyze: %s", loose)
	}
	if got := s.box.Sh("stat -c %a /etc/muster/agent.env " + s.base + " " + s.base + "/identity.json | tr '\\n' ' '"); got != "600 700 600" {
		s.Errorf("modes of the settings, the state and the identity: %s", got)
	}
}

// again expects that the same command finds nothing to do.
func (s *scene) again() {
	s.Helper()
	pid := s.show("MainPID")
	if out := s.paste(s.token.Command); !strings.Contains(out, "nothing to do") {
		s.Errorf("the same command again did not say that there is nothing to do:\n%s", out)
	}
	if now := s.show("MainPID"); now != pid {
		s.Errorf("the same command again restarted the agent: pid %s, was %s", now, pid)
	}
}

// killAgent expects systemd to bring the agent back in its own time.
func (s *scene) killAgent() {
	s.Helper()
	pid := s.show("MainPID")
	start := time.Now()
	s.box.Sh("kill -9 " + pid)
	took := s.lab.Within(s.restartTime()+2*time.Second, "systemd restarts the agent", func() bool {
		now := s.show("MainPID")
		return now != pid && now != "0" && s.show("ActiveState") == "active"
	})
	s.Logf("active again %s after kill -9 (RestartSec %s)", took.Round(time.Millisecond), s.restartTime())
	if n := s.show("NRestarts"); n != "1" {
		s.Errorf("NRestarts=%s, want 1", n)
	}
	s.back(10*time.Second, start)
}

func (s *scene) restartTime() time.Duration {
	s.Helper()
	text := s.show("RestartUSec")
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		s.Fatalf("RestartUSec=%s: %v", text, err)
	}
	return d
}

// upgrade replaces the gateway by one that carries another agent. The pasted command installs that once the channel points at it. Until
// then the node is pinned, or it might update itself before.
func (s *scene) upgrade() {
	s.Helper()
	const version = "9.9.9-lab"
	was := s.link("current")
	if good := s.link("good"); good != was {
		s.Errorf("good is %s and current is %s after a join that ended online", good, was)
	}
	s.gateway.Binary = s.lab.Build(version)
	s.gateway.Stop()
	s.gateway.Open()
	s.back(time.Minute, time.Now()) // a beat may have met no gateway: then there is something to do
	if out := s.paste(s.gateway.Token().Command); !strings.Contains(out, "nothing to do") || s.link("current") != was {
		s.Errorf("the channel has not moved, and the pasted command changed the agent:\n%s", out)
	}
	s.gateway.Muster("release", "pin", "--yes", s.node.Name)
	s.gateway.Muster("release", "promote", version, "--now", "--yes")
	start := time.Now()
	s.Log(s.paste(s.gateway.Token().Command))
	current := s.link("current")
	good := s.link("good")
	if current == was || good != current {
		s.Errorf("after the upgrade current is %s (was %s) and good is %s", current, was, good)
	}
	s.back(10*time.Second, start)
	if n := s.gateway.Node(); n.Agent.Version != version || !strings.Contains(current, strings.TrimPrefix(n.Agent.Digest, "sha256:")) ||
		n.Agent.Digest == "" {
		s.Errorf("the gateway knows the agent as %+v, current is %s", n.Agent, current)
	}
	s.again()
}

// rebootAlone boots the machine while there is no gateway: the boot must not wait, nor the unit fail, for that.
func (s *scene) rebootAlone() {
	s.Helper()
	s.gateway.Stop()
	s.box.Reboot()
	if got := s.show("ActiveState"); got != "active" {
		s.Errorf("without a gateway the unit is %s after the boot", got)
	}
	if got := s.box.Sh("systemctl is-system-running || true"); got != "running" {
		s.Errorf("without a gateway the machine is %s: %s", got, s.box.Sh("systemctl --failed"))
	}
	s.gateway.Open()
	s.back(2*time.Minute, time.Now())
}

// notReloaded expects that nobody told systemd to read all its units again, which can take the GPUs away from containers.
func (s *scene) notReloaded() {
	s.Helper()
	if n := s.reloads(); n > 0 {
		s.Errorf("systemd was reloaded %d times:\n%s", n, s.box.Sh("journalctl -b _PID=1 --no-pager"))
	}
}

// reloadIsSeen proves that notReloaded can fail.
func (s *scene) reloadIsSeen() {
	s.Helper()
	s.box.Sh("systemctl daemon-reload")
	s.lab.Until("the journal tells of the reload", func() bool { return s.reloads() > 0 })
}

func (s *scene) reloads() int {
	s.Helper()
	n, err := strconv.Atoi(s.box.Sh("journalctl -b _PID=1 --no-pager | grep -c 'Reloading\\.' || true"))
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// unknown expects that nothing of the unit is left in systemd, which forgets it no earlier than at the next reload.
func (s *scene) unknown() {
	s.Helper()
	if state := s.show("LoadState"); state != "not-found" {
		s.Errorf("systemd still knows the unit after leave and a reload: %s", state)
	}
	if failed := s.box.Sh("systemctl --failed --plain --no-legend"); failed != "" {
		s.Errorf("failed units: %s", failed)
	}
}
