package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"muster/agent/internal/account"
)

// Choose returns the kind that keeps the agent running here, also after the user has logged out. systemd ends a user's services at the last
// logout unless the user lingers. If the user cannot linger, cron starts a supervisor that outlives the login. The error says why neither
// works, and what to do. Choose changes nothing.
func (m Manager) Choose(ctx context.Context) (Kind, error) {
	kind := m.Kind()
	switch {
	case !m.boundToLogins():
		return kind, nil
	case kind == UserSystemd && (m.lingers(ctx) || m.mayLinger(ctx)):
		return kind, nil
	}
	if why := m.endsAtLogout(ctx); why != "" {
		return kind, m.noLinger(why)
	}
	return Supervised, nil
}

// boundToLogins reports whether the system may end this user's processes at logout.
func (m Manager) boundToLogins() bool {
	return m.UID != 0 && (m.Kind() == UserSystemd || m.runsSystemd())
}

func (m Manager) noLinger(why string) error {
	return fmt.Errorf("nothing here keeps the agent of a user running after logout: systemd ends a user's services unless the user lingers, "+
		"which %s may not turn on here, and %s. Let root run: loginctl enable-linger %s   and join again, or join as root",
		m.user(), why, m.user())
}

// endsAtLogout says why cron and the supervisor cannot keep the agent after logout. It is empty if they can.
func (m Manager) endsAtLogout(ctx context.Context) string {
	kill, err := m.run(ctx, "loginctl", "show-user", "--property=KillUserProcesses", "--value")
	if err == nil && kill == "yes" {
		return "all other processes end too (KillUserProcesses in logind.conf)"
	}
	if !m.cronRuns() {
		return "no cron runs that could start it"
	}
	if _, err := m.crontab(ctx); err != nil {
		return "cron takes no entry (" + err.Error() + ")"
	}
	return ""
}

// lingers reports whether the user's services run from boot on, whether the user is logged in or not.
func (m Manager) lingers(ctx context.Context) bool {
	if exists(m.path(filepath.Join("/var/lib/systemd/linger", m.user()))) {
		return true
	}
	text, err := m.run(ctx, "loginctl", "show-user", m.user(), "--property=Linger", "--value")
	return err == nil && text == "yes"
}

// mayLinger asks polkit whether this user may turn lingering on without a password. logind asks polkit too. On a machine
// without polkit only root may.
func (m Manager) mayLinger(ctx context.Context) bool {
	_, err := m.run(ctx, "pkcheck", "--action-id", "org.freedesktop.login1.set-self-linger", "--process", fmt.Sprint(os.Getpid()))
	return err == nil
}

// linger makes the user's services run from boot on. It notes that it did, so that removing the agent undoes it.
func (m Manager) linger(ctx context.Context) error {
	if m.lingers(ctx) {
		return nil
	}
	if _, err := m.run(ctx, "loginctl", "--no-ask-password", "enable-linger", m.user()); err != nil {
		return m.noLinger(err.Error())
	}
	m.settlePaths(m.path("/var/lib/systemd/linger"))
	return m.note(func(r *record) { r.Linger = true })
}

// unlinger turns lingering off if join has turned it on. It comes last: with it the user's systemd ends, and with that the process that does
// this, if the agent has started it.
func (m Manager) unlinger(ctx context.Context, r record) error {
	if !r.Linger {
		return nil
	}
	if _, err := m.run(ctx, "loginctl", "--no-ask-password", "disable-linger", m.user()); err != nil {
		return fmt.Errorf("%w: let root run: loginctl disable-linger %s", err, m.user())
	}
	return nil
}

// user is the user's name by /etc/passwd, or the number where no name is known. For a user who is not in that file, the environment
// counts. A name of another user in the environment does not count: su, sudo and setpriv may leave the caller's name there.
func (m Manager) user() string {
	accounts := &account.Accounts{Root: m.Root, UID: m.UID}
	number := fmt.Sprint(m.UID)
	if own, err := accounts.Login(""); err == nil && own.Name != number && plainName(own.Name) {
		return own.Name
	}
	for _, name := range []string{m.getenv("USER"), m.getenv("LOGNAME")} {
		if _, unknown := accounts.Login(name); plainName(name) && unknown != nil {
			return name
		}
	}
	return number
}

// plainName refuses a name that a tool would take for a flag, and "+", which is not a name: NIS reads it as a reference to another list.
func plainName(name string) bool { return name != "" && !strings.ContainsAny(name[:1], "-+") }
