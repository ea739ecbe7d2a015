//go:build real

package lab_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/kit/lab"
)

// TestGiveBack starts agents anew by a task, and gives their machines back: nothing of muster is left on them.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		root lab.Root
		user string
	}{
		{"systemd", lab.Systemd(), "root"},
		{"supervisor", lab.Plain(), "root"},
		{"user", lab.Plain(), "alice"},
		{"user who lingers", lab.Logins(), "alice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, c.root, c.user, func(b *lab.Box) {
				if c.user != "root" {
					b.Sh("useradd --create-home --shell /bin/sh " + c.user)
				}
				b.Sh("pgrep cron || cron || pgrep cron") // systemd may be just starting it
			})
			s.install()
			s.step("start the agent anew")
			s.anew()
			if c.user == "root" {
				s.step("make an account")
				s.gateway.Muster("task", "run", s.node.Name, wire.TaskProvisionUser, "username=ada", "--wait")
				s.box.Sh("id ada && getent shadow ada")
			}
			s.step("give the machine back")
			s.giveBack()
		})
	}
}

// anew has a task start the agent anew. The agent goes on as the same node, and takes the next task.
func (s *scene) anew() {
	s.Helper()
	s.gateway.Muster("task", "run", s.node.Name, wire.TaskAgentRestart, "--wait")
	s.lab.Until("the agent has started anew", func() bool { return strings.Contains(s.log(), "starting anew") })
	s.back(time.Minute, time.Now())
	out, err := s.gateway.Try("task", "run", s.node.Name, wire.TaskWorkloadStatus, "--wait")
	if err != nil || !strings.Contains(out, "no workloads") {
		s.Errorf("the next task: %v\n%s", err, out)
	}
	var page struct {
		Tasks []struct{ Type, Status string }
	}
	text := s.gateway.Muster("task", "ls", "-o", "json")
	if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Tasks) < 2 {
		s.Fatalf("task ls: %v in %s", err, text)
	}
	for _, task := range page.Tasks {
		if task.Type == wire.TaskNodeCheck { // the gateway has asked for it by itself
			continue
		}
		if task.Status != wire.TaskCompleted {
			s.Errorf("%s is %s", task.Type, task.Status)
		}
	}
}

// log is what the agent has written into its log file.
func (s *scene) log() string { return s.box.Sh("cat " + s.base + "/agent.log* 2>/dev/null || true") }

// backup is a copy that the system's own tools make of a file before they change its accounts.
var backup = regexp.MustCompile(`^/etc/(passwd|shadow|group|gshadow|subuid|subgid)-:`)

// giveBack returns the machine, and expects it as it was before.
func (s *scene) giveBack() {
	s.Helper()
	out, err := s.gateway.Try("node", "return", s.node.Name, "--remove-home", "--yes")
	if err != nil {
		s.Fatalf("node return: %v\n%s\n%s", err, out, s.log())
	}
	s.Log(out)
	if state := s.gateway.Node().State; state != wire.StateRetired {
		s.Errorf("the node is %q, want retired", state)
	}
	s.lab.Until("no process of the agent is left", func() bool { return s.box.Sh("pgrep muster-agent || true") == "" })
	if out, err := s.box.Try("root", "id ada"); err == nil {
		s.Errorf("the account is still there: %s", out)
	}
	var more []string
	for end := time.Now().Add(20 * time.Second); ; <-time.After(time.Second) { // the service's own manager may have work yet
		more = lab.Differences(s.before, s.box.Tree())
		more = slices.DeleteFunc(more, func(line string) bool { return backup.MatchString(line) })
		if len(more) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(more) > 0 {
		s.Errorf("the machine is not as it was:\n%s", strings.Join(more, "\n"))
	}
	s.work.Unharmed()
	if out, err = s.gateway.Try("node", "return", s.node.Name, "--yes"); err != nil {
		s.Errorf("node return again: %v\n%s", err, out)
	} else {
		s.Logf("again: %s", out)
	}
}
