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

// marker ends every line that was added to somebody else's file, and is how it is found again.
const marker = "# " + Name

// onstartPath is the script that vast.ai runs when an instance starts.
const onstartPath = "/root/onstart.sh"

// bootLine starts the supervisor. It returns at once, and does nothing where one runs.
func (m Manager) bootLine() string {
	return fmt.Sprintf("%s supervise --state %s --settings %s %s", Layout{Base: m.Base}.Program(), m.Base, m.Settings, marker)
}

// ours tells a line that an installation in this state directory added.
func (m Manager) ours(line string) bool {
	line = strings.TrimRight(line, "\r\n")
	return strings.HasSuffix(line, marker) && strings.Contains(line, Layout{Base: m.Base}.Program()+" ")
}

// withLine puts a line into a text where ours is not yet, or in the place of an older one of ours. In a script it stands
// near the top: what follows may never end.
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

// withoutLine gives a text as it was before.
func (m Manager) withoutLine(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !m.ours(line) {
			out.WriteString(line)
		} else if !strings.HasSuffix(line, "\n") { // the last one: what stood before it had no line's end
			return strings.TrimSuffix(out.String(), "\n")
		}
	}
	return out.String()
}

// bootHook arranges for the supervisor to be started at boot, by what is there: the provider's start script, or cron.
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

func (m Manager) bootAdvice() string {
	line := strings.TrimSuffix(m.bootLine(), " "+marker)
	if m.getenv("CONTAINER_ID") != "" || m.getenv("VAST_CONTAINERLABEL") != "" {
		return "nothing restarts it when this instance is stopped and started again: put this line into the instance's on-start script: " + line
	}
	return "nothing here starts programs at boot: let whatever starts this machine (an entrypoint, a start script) run: " + line
}

func (m Manager) onstart() bool {
	info, err := os.Stat(m.path(onstartPath))
	return err == nil && info.Mode().IsRegular() && syscall.Access(m.path(onstartPath), 2) == nil
}

// editOnstart adds the line to the provider's script, or takes it out. The script stays as it is but for that.
func (m Manager) editOnstart(add bool) error {
	path, err := filepath.EvalSymlinks(m.path(onstartPath))
	if err != nil {
		return explain(path, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return explain(path, err)
	}
	text := m.withoutLine(string(raw))
	if add {
		text = m.withLine(string(raw), m.bootLine(), true)
	}
	if text == string(raw) {
		return nil
	}
	return rewrite(path, []byte(text))
}

// rewrite replaces a file of somebody else's with its mode and owner. One that is mounted cannot be renamed over and is
// written in place.
func rewrite(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return explain(path, err)
	}
	err = replace(path, content, info.Mode().Perm())
	if err == nil {
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
	return explain(path, errors.Join(err, file.Sync(), file.Close()))
}

// cronRuns looks for a cron daemon among the processes: a crontab that nobody reads starts nothing.
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

// crontab is the user's, empty where there is none. The error says that this user can have none.
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

// revival is how often cron looks after the supervisor of a user: one that was started in a graphical session, say, ends
// with that.
const revival = "*/5 * * * *"

// cronLines are our entries. What the second one says would be mailed.
func (m Manager) cronLines() string {
	line := "@reboot " + m.bootLine()
	if m.boundToLogins() {
		line += "\n" + revival + " " + strings.TrimSuffix(m.bootLine(), marker) + ">/dev/null 2>&1 " + marker
	}
	return line
}

// editCrontab adds the lines to the user's crontab or takes them out. A crontab that only ever held our lines is removed.
func (m Manager) editCrontab(ctx context.Context, add bool) error {
	old, err := m.crontab(ctx)
	if err != nil && add {
		return err
	} else if err != nil {
		return nil // no cron: nothing of ours in it
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

// loadCrontab hands the text over in a file: that needs no standard input, and every cron takes it.
func (m Manager) loadCrontab(ctx context.Context, text string) error {
	path := filepath.Join(m.Base, "crontab.new")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return explain(path, err)
	}
	defer os.Remove(path)
	_, err := m.run(ctx, "crontab", path)
	settlePaths(m.path("/var/spool/cron/crontabs/"+m.user()), m.path("/var/spool/cron/crontabs"), m.path("/var/spool/cron/"+m.user()), m.path("/var/spool/cron"))
	return err
}

// removeHooks takes our lines out of everything that starts programs at boot.
func (m Manager) removeHooks(ctx context.Context) error {
	var failed []error
	if _, err := os.Stat(m.path(onstartPath)); err == nil {
		failed = append(failed, m.editOnstart(false))
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		failed = append(failed, err)
	}
	return errors.Join(append(failed, m.editCrontab(ctx, false))...)
}

// Boot says what would start the supervisor at boot, or what a person would have to do.
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
