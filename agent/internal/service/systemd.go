package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

const openRCPath = "/etc/init.d/" + Name

// unit is what an init system reads to keep the agent: a unit of systemd, or a script of OpenRC.
type unit struct {
	Manager
	kind Kind
	path string // of the file, with Root in front of it; empty: this user has no place for one
	text []byte
	mode fs.FileMode
	made []string // patterns of what changes on the disk when it is enabled
}

// unit is that of a kind, which is not Supervised.
func (m Manager) unit(kind Kind) unit {
	u := unit{Manager: m, kind: kind, mode: 0o644, text: []byte(unitText(m.Base, m.Settings, kind == UserSystemd))}
	switch folder := m.configFolder(); {
	case kind == OpenRC:
		u.path = m.path(openRCPath)
		u.text = []byte(openRCText(m.Base, m.Settings))
		u.mode = 0o755
		u.made = []string{m.path("/etc/runlevels/default")}
		return u
	case kind == Systemd:
		u.path = m.path(systemUnits + unitName)
	case folder != "":
		u.path = m.path(filepath.Join(folder, "systemd", "user", unitName))
	}
	u.made = []string{filepath.Join(filepath.Dir(u.path), "*.wants"), filepath.Dir(u.path)} // the link that enable makes
	return u
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

// tell has the init system enable, disable, start, stop or restart the agent.
func (u unit) tell(ctx context.Context, verb string) (err error) {
	changes := verb == "enable" || verb == "disable"
	switch {
	case u.kind == OpenRC && changes:
		_, err = u.run(ctx, "rc-update", map[string]string{"enable": "add", "disable": "del"}[verb], Name, "default")
	case u.kind == OpenRC:
		_, err = u.run(ctx, "rc-service", Name, verb)
	case changes:
		_, err = u.systemctl(ctx, u.kind == UserSystemd, verb, "--no-reload", unitName)
	default:
		_, err = u.systemctl(ctx, u.kind == UserSystemd, verb, unitName)
	}
	return err
}

// install writes the file, enables it for the next boot and starts the agent. A new file is read by itself. OpenRC reads a changed one at
// each call. systemd remembers the one that it knows: that is changed only if systemd may be reloaded.
func (u unit) install(ctx context.Context, restart bool) (out Outcome, err error) {
	if u.kind == UserSystemd {
		if err := u.linger(ctx); err != nil {
			return out, err
		}
	}
	known := exists(u.path)
	remembered := known && u.kind != OpenRC
	switch stale := !same(u.path, u.text); {
	case stale && remembered && !u.ReloadUnits:
		out.Advice = append(out.Advice, u.path+" is not as this version writes it and was left as it is, since a daemon-reload can take "+
			"the GPUs away from running containers: when none run, join again with --reload-units")
	case stale:
		if err := u.write(ctx, remembered); err != nil {
			return out, err
		}
		restart = restart || remembered
	}
	if err := u.checkMemory(ctx); err != nil {
		return out, err
	}
	if err := u.tell(ctx, "enable"); err != nil {
		return out, fmt.Errorf("%w: read what %s says, then join again", err, u.kind)
	}
	u.settlePaths(u.made...)
	verb := "start"
	if known && restart {
		verb = "restart"
	}
	if err := u.tell(ctx, verb); err != nil {
		return out, fmt.Errorf("%w: see %s", err, u.journal())
	}
	out.Line = map[Kind]string{
		Systemd:     "systemd: " + unitName + " enabled and " + verb + "ed",
		UserSystemd: "systemd --user: " + unitName + " enabled and " + verb + "ed, linger on",
		OpenRC:      "OpenRC: service " + Name + " added to the default runlevel and started",
	}[u.kind]
	return out, nil
}

func (u unit) write(ctx context.Context, reload bool) error {
	err := u.makeFolder(filepath.Dir(u.path), 0o755)
	if err == nil {
		err = u.replace(u.path, u.text, u.mode)
	}
	if err == nil && reload {
		_, err = u.systemctl(ctx, u.kind == UserSystemd, "daemon-reload")
	}
	return err
}

// checkMemory looks at what systemd would start. systemd may remember the unit of a former installation, because a target wanted
// it at boot. If that installation was in another state directory, systemd would start a program that is not there any more.
func (u unit) checkMemory(ctx context.Context) error {
	if u.kind == OpenRC {
		return nil
	}
	text, err := u.systemctl(ctx, u.kind == UserSystemd, "show", unitName, "--property=ExecStart", "--value")
	if err != nil || !strings.Contains(text, "path=") || strings.Contains(text, "path="+Layout{Base: u.Base}.Program()+" ") {
		return nil
	}
	if u.ReloadUnits {
		_, err := u.systemctl(ctx, u.kind == UserSystemd, "daemon-reload")
		return err
	}
	return fmt.Errorf("systemd still remembers a %s of another state directory than %s: join with the --state of that one, restart "+
		"the machine, or add --reload-units, when no containers with GPUs run (a daemon-reload can take the GPUs away from them)",
		unitName, u.Base)
}

// journal says where a person reads why the agent did not start.
func (u unit) journal() string {
	log := Layout{Base: u.Base}.Log()
	switch u.kind {
	case Systemd:
		return "journalctl -u " + unitName + " -n 50, and " + log
	case UserSystemd:
		return "journalctl --user -u " + unitName + " -n 50, and " + log
	}
	return log
}

// stop stops the agent where the file is there. It is no error where the init system does not run, and so neither does the agent.
func (u unit) stop(ctx context.Context) error {
	if !exists(u.path) || u.kind == UserSystemd && u.runtimeFolder() == "" {
		return nil
	}
	err := u.tell(ctx, "stop")
	if u.kind == Systemd && !u.runsSystemd() {
		return nil
	}
	return err
}

// uninstall stops the agent and removes the file. A reload is not needed: systemd forgets a unit that is stopped and whose file is gone.
// An agent that does not stop is at least not started at boot.
func (u unit) uninstall(ctx context.Context) (removed string, err error) {
	if !exists(u.path) {
		return "", nil
	}
	if err := errors.Join(u.stop(ctx), u.disable(ctx)); err != nil {
		return "", fmt.Errorf("%w: read what %s says, then leave again", err, u.kind)
	}
	if err := u.remove(u.path); err != nil {
		return "", err
	}
	return u.path, nil
}

// disable keeps the agent from being started again. If the user's systemd does not run, it removes the link itself.
func (u unit) disable(ctx context.Context) error {
	if u.kind == UserSystemd && u.runtimeFolder() == "" {
		return u.remove(filepath.Join(filepath.Dir(u.path), "default.target.wants", unitName))
	}
	return u.tell(ctx, "disable")
}
