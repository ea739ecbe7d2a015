//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// login is a scene with a user of a machine with systemd, which ends a user's services at logout unless the user lingers.
func login(t *testing.T, deny string) *scene {
	t.Helper()
	return newScene(t, lab.Logins(), "alice", func(b *lab.Box) {
		b.Sh("useradd --create-home --shell /bin/sh alice; systemctl stop cron.service; " + deny)
	})
}

// TestUserWhoLingers: polkit allows a user to linger, and the agent stays.
func TestUserWhoLingers(t *testing.T) {
	t.Parallel()
	s := login(t, "")
	if out := s.install(); !contains(out, "systemd --user", "linger on") {
		t.Errorf("not by linger")
	}
	s.lab.Until("nobody is logged in", s.nobody)
	s.back(20*time.Second, time.Now())
	s.rebooted()
	s.leave()
}

// TestUserWhoMayNotLinger: where polkit does not allow it, cron keeps the agent. If there is no cron either, join says so before it
// uses the token up.
func TestUserWhoMayNotLinger(t *testing.T) {
	t.Parallel()
	s := login(t, "rm /usr/bin/pkcheck; systemctl mask --now polkit.service")
	s.step("no cron: nothing is made, and the token is good")
	for _, more := range []string{" --check", ""} {
		out, err := s.box.Try("alice", s.token.Command+more)
		t.Logf("%v\n%s", err, out)
		if err == nil || !contains(out, "loginctl enable-linger alice") || len(s.gateway.Nodes()) > 0 {
			t.Errorf("%q: %v, nodes %+v", more, err, s.gateway.Nodes())
		}
	}
	if more := lab.Differences(s.before, s.box.Tree()); len(more) > 0 {
		t.Errorf("left on the machine:\n%s", strings.Join(more, "\n"))
	}
	s.step("cron")
	s.box.Sh("systemctl start cron.service")
	if out := s.install(); !contains(out, "no linger", "restarted from cron") {
		t.Errorf("not by cron")
	}
	s.step("logout")
	s.lab.Until("nobody is logged in", s.nobody)
	s.box.Sh("systemctl stop user@$(id -u alice).service") // as logind does, at once instead of in ten seconds
	s.back(20*time.Second, time.Now())
	s.step("reboot")
	s.rebooted()
	s.leave()
}

// nobody tells whether the user's last login has ended.
func (s *scene) nobody() bool {
	state, err := s.box.Try("root", "loginctl show-user "+s.user+" --property=State --value")
	return err != nil || strings.TrimSpace(state) != "active"
}

func (s *scene) rebooted() {
	s.Helper()
	s.box.Reboot()
	s.back(time.Minute, time.Now())
}
