package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// unitPath is where the unit is, without Root in front of it.
func (m Manager) unitPath(user bool) string {
	if user {
		return filepath.Join(m.configFolder(), "systemd", "user", unitName)
	}
	return systemUnits + unitName
}

// systemctl calls the system's or the user's systemd. For the user's it sets XDG_RUNTIME_DIR, which says where that listens and which
// not every session has.
func (m Manager) systemctl(ctx context.Context, user bool, args ...string) (string, error) {
	if !user {
		return m.run(ctx, "systemctl", args...)
	}
	args = append([]string{"systemctl", "--user"}, args...)
	return m.run(ctx, "env", append([]string{"XDG_RUNTIME_DIR=" + m.runtimeFolder()}, args...)...)
}

// installUnit writes the unit, enables it for the next boot and starts it. systemd reads a new unit by itself. A unit that it
// knows already is changed only if systemd may be reloaded.
func (m Manager) installUnit(ctx context.Context, user, restart bool) (Outcome, error) {
	var out Outcome
	if user {
		if err := m.linger(ctx); err != nil {
			return out, err
		}
	}
	path := m.path(m.unitPath(user))
	text := []byte(unitText(m.Base, m.Settings, user))
	known := exists(path) // systemd may have read it, and then uses what it has read
	switch {
	case !known:
		if err := m.makeFolder(filepath.Dir(path), 0o755); err != nil {
			return out, err
		}
		if err := m.replace(path, text, 0o644); err != nil {
			return out, err
		}
	case !same(path, text) && m.ReloadUnits:
		if err := m.replace(path, text, 0o644); err != nil {
			return out, err
		}
		if _, err := m.systemctl(ctx, user, "daemon-reload"); err != nil {
			return out, err
		}
		restart = true
	case !same(path, text):
		out.Advice = append(out.Advice, path+" is not as this version writes it and was left as it is, since a daemon-reload can take "+
			"the GPUs away from running containers: when none run, join again with --reload-units")
	}
	if err := m.checkMemory(ctx, user); err != nil {
		return out, err
	}
	if _, err := m.systemctl(ctx, user, "enable", "--no-reload", unitName); err != nil {
		return out, fmt.Errorf("%w: read what systemctl says, then join again", err)
	}
	m.settlePaths(filepath.Join(filepath.Dir(path), "*.wants"), filepath.Dir(path)) // the link that enable made
	verb := "start"
	if known && restart {
		verb = "restart"
	}
	if _, err := m.systemctl(ctx, user, verb, unitName); err != nil {
		return out, fmt.Errorf("%w: see %s", err, m.journal(user))
	}
	out.Line = string(m.systemdName(user)) + ": " + unitName + " enabled and " + verb + "ed"
	if user {
		out.Line += ", linger on"
	}
	return out, nil
}

func (m Manager) systemdName(user bool) Kind {
	if user {
		return UserSystemd
	}
	return Systemd
}

// checkMemory looks at what systemd would start. systemd may remember the unit of a former installation, because a target wanted
// it at boot. If that installation was in another state directory, systemd would start a program that is not there any more.
func (m Manager) checkMemory(ctx context.Context, user bool) error {
	text, err := m.systemctl(ctx, user, "show", unitName, "--property=ExecStart", "--value")
	if err != nil || !strings.Contains(text, "path=") || strings.Contains(text, "path="+Layout{Base: m.Base}.Program()+" ") {
		return nil
	}
	if m.ReloadUnits {
		_, err := m.systemctl(ctx, user, "daemon-reload")
		return err
	}
	return fmt.Errorf("systemd still remembers a %s of another state directory than %s: join with the --state of that one, restart "+
		"the machine, or add --reload-units, when no containers with GPUs run (a daemon-reload can take the GPUs away from them)",
		unitName, m.Base)
}

func (m Manager) log() string { return Layout{Base: m.Base}.Log() }

// journal says where a person reads why the unit failed.
func (m Manager) journal(user bool) string {
	if user {
		return "journalctl --user -u " + unitName + " -n 50, and " + m.log()
	}
	return "journalctl -u " + unitName + " -n 50, and " + m.log()
}

// removeUnit stops the unit and removes it. A reload is not needed: systemd forgets a unit that is stopped and whose file is gone.
func (m Manager) removeUnit(ctx context.Context, user bool) (removed string, err error) {
	path := m.path(m.unitPath(user))
	if user && m.configFolder() == "" || !exists(path) {
		return "", nil
	}
	if err := m.stopUnit(ctx, user); err != nil {
		return "", err
	}
	if err := m.disableUnit(ctx, user); err != nil {
		return "", err
	}
	if err := m.remove(path); err != nil {
		return "", err
	}
	if user && m.record().Linger {
		if _, err := m.run(ctx, "loginctl", "--no-ask-password", "disable-linger", m.user()); err != nil {
			return path, fmt.Errorf("%w: let root run: loginctl disable-linger %s", err, m.user())
		}
	}
	return path, nil
}

// disableUnit keeps the unit from being started again. If the user's systemd does not run, it removes the link itself.
func (m Manager) disableUnit(ctx context.Context, user bool) error {
	if user && m.runtimeFolder() == "" {
		return m.remove(m.path(filepath.Join(filepath.Dir(m.unitPath(true)), "default.target.wants", unitName)))
	}
	if _, err := m.systemctl(ctx, user, "disable", "--no-reload", unitName); err != nil {
		return fmt.Errorf("%w: read what systemctl says, then leave again", err)
	}
	return nil
}

// stopUnit stops the unit where it is there. It is no error where systemd does not run.
func (m Manager) stopUnit(ctx context.Context, user bool) error {
	if user && m.configFolder() == "" || !exists(m.path(m.unitPath(user))) {
		return nil
	}
	if user && m.runtimeFolder() == "" {
		return nil // the user's systemd does not run, so neither does the unit
	}
	_, err := m.systemctl(ctx, user, "stop", unitName)
	if err != nil && !m.runsSystemd() && !user {
		return nil // a unit on a machine that systemd does not run on
	}
	return err
}

const openRCPath = "/etc/init.d/" + Name

// installOpenRC writes the init script, adds it to the default runlevel and starts it. OpenRC reads the script at each call, so a changed
// one needs no reload.
func (m Manager) installOpenRC(ctx context.Context, restart bool) (Outcome, error) {
	path := m.path(openRCPath)
	text := []byte(openRCText(m.Base, m.Settings))
	known := exists(path)
	if !same(path, text) {
		if err := m.makeFolder(filepath.Dir(path), 0o755); err != nil {
			return Outcome{}, err
		}
		if err := m.replace(path, text, 0o755); err != nil {
			return Outcome{}, err
		}
	}
	if _, err := m.run(ctx, "rc-update", "add", Name, "default"); err != nil {
		return Outcome{}, fmt.Errorf("%w: read what rc-update says, then join again", err)
	}
	m.settlePaths(m.path("/etc/runlevels/default"))
	verb := "start"
	if known && restart {
		verb = "restart"
	}
	if _, err := m.run(ctx, "rc-service", Name, verb); err != nil {
		return Outcome{}, fmt.Errorf("%w: see %s", err, m.log())
	}
	return Outcome{Line: "OpenRC: service " + Name + " added to the default runlevel and started"}, nil
}

func (m Manager) removeOpenRC(ctx context.Context) (removed string, err error) {
	path := m.path(openRCPath)
	if !exists(path) {
		return "", nil
	}
	// Both are tried, so that a service that does not stop is at least not started at boot.
	_, stopped := m.run(ctx, "rc-service", Name, "stop")
	_, deleted := m.run(ctx, "rc-update", "del", Name, "default")
	if err := errors.Join(stopped, deleted); err != nil {
		return "", fmt.Errorf("%w: read what OpenRC says, then leave again", err)
	}
	if err := os.Remove(path); err != nil {
		return "", explain(path, err)
	}
	return path, m.syncDirectory(filepath.Dir(path))
}
