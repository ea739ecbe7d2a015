package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// marker is the end of every line that the agent adds to somebody else's file. The agent finds the line again by it.
const marker = "# " + Name

// onstartPath is the script that vast.ai runs when an instance starts.
const onstartPath = "/root/onstart.sh"

// bootLine is the shell command that starts the supervisor. It returns at once, and does nothing where a supervisor runs. The last good
// version is the supervisor, because the one that is started may be on trial.
func (m Manager) bootLine() string {
	return fmt.Sprintf("%s supervise --state %s --settings %s %s", Layout{Base: m.Base}.GoodProgram(), m.Base, m.Settings, marker)
}

// ours reports whether an installation in this state directory has added a line.
func (m Manager) ours(line string) bool {
	line = strings.TrimRight(line, "\r\n")
	return strings.HasSuffix(line, marker) && strings.Contains(line, Layout{Base: m.Base}.GoodProgram()+" ")
}

// withLine adds our line to a text, and removes older ones of ours. In a script it stands near the top, because a command after it may
// never end.
func (m Manager) withLine(text, line string, script bool) string {
	clean := m.withoutLine(text)
	if script && strings.HasPrefix(clean, "#!") {
		first, rest, whole := strings.Cut(clean, "\n")
		if !whole {
			return first + "\n" + line
		}
		return first + "\n" + line + "\n" + rest
	}
	if script {
		return line + "\n" + clean
	}
	if clean != "" && !strings.HasSuffix(clean, "\n") {
		clean += "\n"
	}
	return clean + line + "\n"
}

// withoutLine removes our lines from a text.
func (m Manager) withoutLine(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !m.ours(line) {
			out.WriteString(line)
		} else if !strings.HasSuffix(line, "\n") { // ours is the last line: the text did not end with a newline before
			return strings.TrimSuffix(out.String(), "\n")
		}
	}
	return out.String()
}

// bootHook makes the provider's start script or cron start the supervisor at boot.
func (m Manager) bootHook(ctx context.Context) (by string, advice []string, err error) {
	by, text := m.Boot()
	switch {
	case by == "":
		return "", []string{text}, nil
	case m.onstart():
		return by, nil, m.editOnstart(true)
	}
	if err := m.editCrontab(ctx, true); err != nil && m.boundToLogins() {
		return "", nil, m.noLinger("cron takes no entry (" + err.Error() + ")")
	} else if err != nil {
		return "", []string{"cron takes no entry (" + err.Error() + "). " + m.bootAdvice()}, nil
	}
	return by, nil, nil
}

// bootAdvice is what a person does if nothing here starts programs at boot.
func (m Manager) bootAdvice() string {
	line := strings.TrimSuffix(m.bootLine(), " "+marker)
	if m.getenv("CONTAINER_ID") != "" || m.getenv("VAST_CONTAINERLABEL") != "" {
		return "Nothing restarts it when this instance is stopped and started again: put this line into the instance's on-start script: " + line
	}
	return "After a reboot the agent will not start. Put this line in your start script: " + line
}

// onstart reports whether the provider's script is there and this user may write it.
func (m Manager) onstart() bool {
	info, err := os.Stat(m.path(onstartPath))
	const toWrite = 2 // W_OK
	return err == nil && info.Mode().IsRegular() && syscall.Access(m.path(onstartPath), toWrite) == nil
}

// editOnstart adds the line to the provider's script, or removes it. It changes nothing else in the script.
func (m Manager) editOnstart(add bool) error {
	_, err := m.edit(m.path(onstartPath), func(text string) string {
		if add {
			return m.withLine(text, m.bootLine(), true)
		}
		return m.withoutLine(text)
	})
	return err
}

// edit changes the text of somebody else's file. It follows links.
func (s System) edit(path string, change func(text string) string) (changed bool, err error) {
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, explain(path, err)
	}
	raw, err := os.ReadFile(at)
	if err != nil {
		return false, explain(at, err)
	}
	text := change(string(raw))
	if text == string(raw) {
		return false, nil
	}
	return true, s.rewrite(at, []byte(text))
}

// rewrite replaces somebody else's file, and keeps its mode and owner. A file that is a mount cannot be renamed over: it is written
// in place.
func (s System) rewrite(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return explain(path, err)
	}
	err = s.replace(path, content, info.Mode().Perm())
	if err == nil { // the new file belongs to this process: give it the owner of the old one
		if owner, ok := info.Sys().(*syscall.Stat_t); ok {
			err = os.Chown(path, int(owner.Uid), int(owner.Gid))
		}
		return explain(path, err)
	}
	if !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.EXDEV) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return explain(path, err)
	}
	_, err = file.Write(content)
	return explain(path, errors.Join(err, s.Disk.Sync(path, file), file.Close()))
}

// cronRuns reports whether a cron daemon is among the processes. Without one, a crontab starts nothing.
func (m Manager) cronRuns() bool {
	names, err := filepath.Glob(m.path("/proc/[0-9]*/comm"))
	if err != nil {
		return false
	}
	for _, name := range names {
		switch raw, _ := os.ReadFile(name); strings.TrimSpace(string(raw)) {
		case "cron", "crond", "fcron", "cronie":
			return true
		}
	}
	return false
}

// crontab is the user's crontab, empty if there is none. An error means that this user cannot have one.
func (m Manager) crontab(ctx context.Context) (string, error) {
	raw, err := m.call(ctx, "crontab", "-l")
	if err == nil {
		return string(raw), nil
	}
	if said := strings.ToLower(string(raw)); !strings.Contains(said, "no crontab") && !strings.Contains(said, "can't open") {
		return "", fmt.Errorf("crontab -l: %s: %w", oneLine(string(raw)), err)
	}
	return "", nil
}

// revival is how often cron starts the supervisor of a user again. The supervisor may end with the session in which it was started,
// such as a graphical one.
const revival = "*/5 * * * *"

// cronLines are our entries. The second one prints nothing, because cron mails what an entry prints.
func (m Manager) cronLines() string {
	line := "@reboot " + m.bootLine()
	if m.boundToLogins() {
		line += "\n" + revival + " " + strings.TrimSuffix(m.bootLine(), marker) + ">/dev/null 2>&1 " + marker
	}
	return line
}

// editCrontab adds the lines to the user's crontab, or removes them. It removes a crontab in which nothing else stands.
func (m Manager) editCrontab(ctx context.Context, add bool) error {
	old, err := m.crontab(ctx)
	if err != nil && add {
		return err
	} else if err != nil {
		return nil // without cron there is nothing of ours to remove
	}
	text := m.withoutLine(old)
	switch {
	case add:
		text = m.withLine(old, m.cronLines(), false)
	case text == "" && old != "":
		_, err := m.run(ctx, "crontab", "-r")
		return err
	}
	if text == old {
		return nil
	}
	return m.loadCrontab(ctx, text)
}

// loadCrontab gives cron the text in a file, which every cron can read.
func (m Manager) loadCrontab(ctx context.Context, text string) error {
	path := filepath.Join(m.Base, "crontab.new")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return explain(path, err)
	}
	defer os.Remove(path)
	_, err := m.run(ctx, "crontab", path)
	for _, folder := range []string{"/var/spool/cron/crontabs", "/var/spool/cron"} {
		m.settlePaths(m.path(folder+"/"+m.user()), m.path(folder))
	}
	return err
}

// removeHooks removes our lines from all that starts programs at boot.
func (m Manager) removeHooks(ctx context.Context) error {
	var failed []error
	if _, err := os.Stat(m.path(onstartPath)); err == nil {
		failed = append(failed, m.editOnstart(false))
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		failed = append(failed, err)
	}
	return errors.Join(append(failed, m.editCrontab(ctx, false))...)
}

// Boot says what starts the supervisor at boot; if nothing does, it says what a person has to do.
func (m Manager) Boot() (by, advice string) {
	switch {
	case m.onstart():
		return "from " + onstartPath + " when the instance starts", ""
	case m.cronRuns() && m.boundToLogins():
		return "from cron at boot, and within 5 minutes whenever it has ended", ""
	case m.cronRuns():
		return "from cron at boot", ""
	}
	return "", m.bootAdvice()
}
