package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Choose is the kind that keeps the agent running here after this login too. systemd ends a user's services at the last
// logout unless the user lingers; where that cannot be had, cron starts what outlives a login. The error says why nothing
// does, and the way out. Nothing is changed.
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

// boundToLogins reports whether the system ends what this user leaves behind, unless it is told otherwise.
func (m Manager) boundToLogins() bool {
	return m.UID != 0 && (m.Kind() == UserSystemd || isDirectory(m.path("/run/systemd/system")))
}

func (m Manager) noLinger(why string) error {
	return fmt.Errorf("nothing here keeps the agent of a user running after logout: systemd ends a user's services unless the user lingers, "+
		"which %s may not turn on here, and %s. Let root run: loginctl enable-linger %s   and join again, or join as root",
		m.user(), why, m.user())
}

// endsAtLogout says why cron and the supervisor cannot keep the agent of a user whose services end at logout. Empty: they
// can.
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

// lingers reports whether the user's services run from boot on, whoever is logged in.
func (m Manager) lingers(ctx context.Context) bool {
	if exists(m.path(filepath.Join("/var/lib/systemd/linger", m.user()))) {
		return true
	}
	text, err := m.run(ctx, "loginctl", "show-user", m.user(), "--property=Linger", "--value")
	return err == nil && text == "yes"
}

// mayLinger asks polkit, by which logind goes, whether this user may turn it on without a password. A machine that has no
// polkit leaves it to root.
func (m Manager) mayLinger(ctx context.Context) bool {
	_, err := m.run(ctx, "pkcheck", "--action-id", "org.freedesktop.login1.set-self-linger", "--process", fmt.Sprint(os.Getpid()))
	return err == nil
}

// linger makes the user's services run from boot on, and notes when it did.
func (m Manager) linger(ctx context.Context) error {
	if m.lingers(ctx) {
		return nil
	}
	if _, err := m.run(ctx, "loginctl", "--no-ask-password", "enable-linger", m.user()); err != nil {
		return m.noLinger(err.Error())
	}
	settlePaths(m.path("/var/lib/systemd/linger"))
	return m.note(func(r *record) { r.Linger = true })
}

// user is the name, or the number where no name is known. /etc/passwd says it. The environment counts for a user who is not
// in there, and never where it names another one: su, sudo and setpriv may leave that of the caller.
func (m Manager) user() string {
	text, _ := os.ReadFile(m.path("/etc/passwd"))
	others := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(line, ":", 4)
		switch {
		case len(fields) < 4:
		case fields[2] == fmt.Sprint(m.UID) && plainName(fields[0]):
			return fields[0]
		default:
			others[fields[0]] = true
		}
	}
	for _, name := range []string{m.getenv("USER"), m.getenv("LOGNAME")} {
		if plainName(name) && !others[name] {
			return name
		}
	}
	return fmt.Sprint(m.UID)
}

// plainName accepts what a tool does not take for a flag. A name with a plus in front is not a user's, but an order to look elsewhere.
func plainName(name string) bool { return name != "" && !strings.ContainsAny(name[:1], "-+") }
