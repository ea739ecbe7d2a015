//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// TestSupervisor takes machines without an init system through an agent's life, once as root and once as a user.
func TestSupervisor(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"root", "alice"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			supervised(t, user)
		})
	}
}

func supervised(t *testing.T, user string) {
	s := newScene(t, lab.Plain(), user, func(b *lab.Box) {
		if user != "root" {
			b.Sh("useradd --create-home --shell /bin/sh " + user)
		}
		b.Sh("cron")
	})
	s.step("install from a login that ends at once")
	s.installAndHangUp()
	s.tokenNowhere()
	s.step("the same command again, and a second supervisor")
	s.second()
	s.step("kill -9 the child")
	s.killChild()
	s.step("the agent hangs")
	s.hang()
	s.step("the gateway goes away and comes back")
	s.away()
	s.step("kill -9 the supervisor and run the boot hook")
	s.killSupervisor()
	s.work.Unharmed()
	s.step("the machine loses power and boots, with cron alone")
	start := time.Now()
	s.box.Reboot()
	s.box.Sh("cron")
	s.back(time.Minute, start)
	s.one()
	s.work = s.box.Workload()
	s.step("leave")
	s.leave()
	if table, err := s.box.Try(user, "crontab -l"); err == nil {
		s.Errorf("leave left a crontab: %q", table)
	}
	s.work.Unharmed()
}

// installAndHangUp pastes the command in a login whose every process is killed as soon as the node is online.
func (s *scene) installAndHangUp() {
	s.Helper()
	watched := s.lab.Watch(secret(s.token))
	start := time.Now()
	login := s.lab.Start("login", s.box.Command(s.user, "echo session=$$; "+s.token.Command+"\necho joined=$?; sleep 600"))
	login.Await("joined=")
	s.Logf("from pasting to online: %s (budget %s beyond the downloads)\n%s", time.Since(start).Round(time.Millisecond), budget, login.Text())
	if seen := watched(); len(seen) > 0 {
		s.Errorf("the token's secret stood in these processes' arguments: %q", seen)
	}
	if text := login.Text(); !contains(text, "joined=0", "[5/5] online", lab.GPU, "supervisor") || !s.gateway.Heard(start) {
		s.Fatalf("not online: %+v", s.gateway.Nodes())
	}
	s.node = s.gateway.Node()
	_, session, _ := strings.Cut(login.Text(), "session=")
	session, _, _ = strings.Cut(session, "\n")
	before := s.one()
	s.box.Sh("pkill -HUP -s " + session + "; pkill -KILL -s " + session + "; true")
	s.lab.Until("nothing of its session is left", func() bool {
		_, err := s.box.Try("root", "pgrep -s "+session)
		return err != nil
	})
	s.lab.Until("the login is over", login.Ended)
	start = time.Now()
	s.back(20*time.Second, start)
	if now := s.one(); now != before {
		s.Errorf("the end of the login changed the agent's processes: %v, were %v", now, before)
	}
}

// pair is the supervisor and the agent that it keeps.
type pair struct{ supervisor, agent string }

// one expects exactly one supervisor with one agent, and gives their process ids.
func (s *scene) one() pair {
	s.Helper()
	var p pair
	s.lab.Until("there is one supervisor and one agent", func() bool {
		p = pair{s.pids("supervise"), s.pids("run")}
		return p.supervisor != "" && p.agent != "" && !strings.Contains(p.supervisor+p.agent, "\n")
	})
	return p
}

func (s *scene) pids(command string) string {
	return s.box.Sh("pgrep --full '^[^ ]*muster-agent " + command + "' || true")
}

func (s *scene) second() {
	s.Helper()
	before := s.one()
	if out := s.paste(s.token.Command); !strings.Contains(out, "nothing to do") {
		s.Errorf("the same command again did not say that there is nothing to do:\n%s", out)
	}
	s.Log(s.agent("supervise"))
	if now := s.one(); now != before {
		s.Errorf("a second start changed the agent's processes: %v, were %v", now, before)
	}
}

func (s *scene) killChild() {
	s.Helper()
	before := s.one()
	start := time.Now()
	s.box.Sh("kill -9 " + before.agent)
	s.back(20*time.Second, start)
	if now := s.one(); now.supervisor != before.supervisor || now.agent == before.agent {
		s.Errorf("after kill -9 of the agent the processes are %v, were %v", now, before)
	}
}

// hang stops the agent where it stands. What keeps it notices that it is silent, as systemd would.
func (s *scene) hang() {
	s.Helper()
	before := s.one()
	start := time.Now()
	s.box.Sh("kill -STOP " + before.agent)
	s.lab.Within(2*time.Minute, "another agent runs", func() bool { return s.pids("run") != before.agent })
	s.back(20*time.Second, time.Now())
	s.Logf("back %s after it hung", time.Since(start).Round(time.Second))
	if now := s.one(); now.supervisor != before.supervisor || now.agent == before.agent {
		s.Errorf("after a hang of the agent the processes are %v, were %v", now, before)
	}
}

// killSupervisor kills it and runs the line that cron runs at boot, as a person or a hook would.
func (s *scene) killSupervisor() {
	s.Helper()
	before := s.one()
	start := time.Now()
	s.box.Sh("kill -9 " + before.supervisor)
	table, err := s.box.Try(s.user, "crontab -l")
	_, line, found := strings.Cut(table, "@reboot ")
	if err != nil || !found {
		s.Fatalf("the crontab restarts nothing at boot: %v\n%s", err, table)
	}
	line, _, _ = strings.Cut(line, "\n")
	s.Logf("@reboot %s", line)
	if out, err := s.box.Try(s.user, line); err != nil {
		s.Fatalf("%s: %v\n%s", line, err, out)
	}
	s.back(30*time.Second, start)
	if now := s.one(); now.supervisor == before.supervisor {
		s.Errorf("the supervisor was not killed: %v", now)
	}
}
