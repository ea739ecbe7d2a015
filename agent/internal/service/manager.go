package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"muster/agent/internal/account"
	"muster/agent/internal/gpu"
	"muster/agent/internal/host"
	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/internal/process"
	"muster/agent/internal/session"
	"muster/agent/internal/task"
	"muster/agent/internal/workload"
)

// Install makes this kind keep the agent running, from now on and after every boot. It changes nothing if everything is as it should be.
// With restart, it restarts an agent that runs, so that the new build or the new settings are used.
func (m Manager) Install(ctx context.Context, kind Kind, restart bool) (Outcome, error) {
	if !slices.Contains(m.kinds(), kind) {
		return Outcome{}, fmt.Errorf("no kind of service is called %q", kind)
	}
	if before := m.Installed(); before != "" && before != kind {
		if _, err := m.removeKind(ctx, before); err != nil {
			return Outcome{}, err
		}
		if before == UserSystemd {
			if err := m.unlinger(ctx, m.record()); err != nil {
				return Outcome{}, err
			}
		}
	}
	if err := m.note(func(r *record) { r.Kind = kind }); err != nil {
		return Outcome{}, err
	}
	if kind == Supervised {
		return m.installSupervisor(ctx, restart)
	}
	return m.unit(kind).install(ctx, restart)
}

// installSupervisor adds the hook before it starts anything, so that an interruption leaves nothing that does not come back at boot.
func (m Manager) installSupervisor(ctx context.Context, restart bool) (Outcome, error) {
	by, advice, err := m.bootHook(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if restart {
		if err := m.stopSupervisor(ctx); err != nil {
			return Outcome{}, err
		}
	}
	if _, err := m.startSupervisor(Layout{Base: m.Base}.Program()); err != nil { // the build that join has just tried
		return Outcome{}, err
	}
	line := m.Without() + ": built-in supervisor started"
	if by != "" {
		line += ", restarted " + by
	}
	return Outcome{Line: line, Advice: advice}, nil
}

// Without says why no service keeps the agent running.
func (m Manager) Without() string {
	if m.boundToLogins() {
		return "this user's services end at logout (no linger)"
	}
	return "no init system here"
}

// StartSupervisor starts the supervisor in a session of its own, from the last good version, and returns what it prints. It is no error if
// one runs already.
func (m Manager) StartSupervisor() (string, error) {
	return m.startSupervisor(Layout{Base: m.Base}.keeping())
}

func (m Manager) startSupervisor(program string) (string, error) {
	start := m.Detach
	if start == nil {
		start = detach
	}
	return start(apart(program, "supervise", "--detached", "--state", m.Base, "--settings", m.Settings))
}

// StartLeave starts the command leave of the installed agent. It outlives the agent, which it stops. It writes to a file in the state
// directory, which it removes at the end. ended is called if the command ends before this process.
func (m Manager) StartLeave(ended func(error)) error {
	log, err := os.OpenFile(filepath.Join(m.Base, leaveLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return explain(m.Base, err)
	}
	defer log.Close()
	command := apart(Layout{Base: m.Base}.Program(), "leave", "--state", m.Base)
	command.Stdout = log
	command.Stderr = log
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the removal: %w", err)
	}
	go func() { ended(command.Wait()) }()
	return nil
}

// LeaveLog returns the file that StartLeave's command writes to.
func (m Manager) LeaveLog() string { return filepath.Join(m.Base, leaveLog) }

// Stop ends the agent, whatever keeps it. It does not change what starts it at boot.
func (m Manager) Stop(ctx context.Context) error {
	var failed []error
	for _, kind := range m.kinds() {
		if kind == Supervised {
			failed = append(failed, m.stopSupervisor(ctx))
		} else {
			failed = append(failed, m.unit(kind).stop(ctx))
		}
	}
	return errors.Join(failed...)
}

// stopSupervisor ends the supervisor, and with it the agent. Then it ends an agent whose supervisor was killed before.
func (m Manager) stopSupervisor(ctx context.Context) error {
	err := end(ctx, stopTime, func() []int {
		pid, _ := Supervisor(m.Base)
		if pid == 0 {
			return nil
		}
		return []int{pid}
	})
	if err != nil {
		return err
	}
	if _, running := Supervisor(m.Base); running {
		return fmt.Errorf("a supervisor holds %s and does not say which process it is: end it by hand (muster-agent supervise)",
			filepath.Join(m.Base, supervisorLock))
	}
	return m.endAgent(ctx, m.Agent())
}

// Files lists what an installation of this kind writes outside of the state directory.
func (m Manager) Files(kind Kind) []string {
	files := []string{m.path(m.Settings)}
	if kind != Supervised {
		files = append(files, m.unit(kind).path)
	}
	return files
}

// Agent returns the process id of the agent that runs from a build in this state directory. It is 0 if none runs.
func (m Manager) Agent() int {
	if !identity.Running(m.Base) {
		return 0
	}
	status, err := identity.ReadStatus(m.Base)
	if err != nil || status.PID < 2 {
		return 0
	}
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", status.PID))
	base, linked := filepath.EvalSymlinks(m.Base)
	if err != nil || linked != nil || !strings.HasPrefix(program, filepath.Join(base, versionsFolder)+"/") {
		return 0
	}
	return status.PID
}

// Traces lists what an installation has left on the machine, in the state directory and outside of it.
func (m Manager) Traces() []string {
	paths := []string{m.path(m.Settings), m.Base}
	for _, kind := range m.kinds() {
		if kind != Supervised {
			paths = append(paths, m.unit(kind).path)
		}
	}
	var found []string
	for _, path := range paths {
		if exists(path) {
			found = append(found, path)
		}
	}
	if m.System.UID == 0 {
		found = append(found, m.bootstrapTraces()...)
	}
	return found
}

// Remove stops the agent, and removes what keeps it, its settings and its state, in this order. So nothing restarts the agent
// meanwhile, and a second call goes on where the first one was interrupted.
func (m Manager) Remove(ctx context.Context) (removed []string, err error) {
	for _, kind := range m.kinds() {
		path, err := m.removeKind(ctx, kind)
		if path != "" {
			removed = append(removed, path)
		}
		if err != nil {
			return removed, err
		}
	}
	if path := m.path(m.Settings); exists(path) {
		if err := m.remove(path); err != nil {
			return removed, err
		}
		removed = append(removed, path)
	}
	if identity.Running(m.Base) { // all that join has installed is stopped by now
		return removed, fmt.Errorf("another muster-agent still runs on %s, started by hand: end it, then leave again", m.Base)
	}
	r := m.record()
	if err := m.removeBase(); err != nil {
		return removed, err
	}
	removeFolders(r.Made)
	if r.Found != nil {
		return append(removed, "what was in "+m.Base), m.unlinger(ctx, r)
	}
	return append(removed, m.Base), m.unlinger(ctx, r)
}

// removeKind stops the agent and removes what keeps it by this kind. path is the unit or the script that it removed, if there was one.
func (m Manager) removeKind(ctx context.Context, kind Kind) (path string, err error) {
	if kind != Supervised {
		return m.unit(kind).uninstall(ctx)
	}
	if err := m.removeHooks(ctx); err != nil {
		return "", err
	}
	return "", m.stopSupervisor(ctx)
}

// leaveLog is a file in the state directory.
const leaveLog = "leave.log"

// ourFiles are the names that an agent, its supervisor and its installation write into a state directory. removeBase also removes the
// .new files that an interruption leaves beside them. service.json comes last, because it says what is left to undo.
var ourFiles = [...]string{
	identity.Files, identity.StatusFile, logName, logName + ".1", supervisorLog, supervisorLog + ".1",
	gpu.RecordFile, gpu.CallFile, host.RecordFile, lastWords, logfile.StartsFile, logfile.CrashFile, task.JournalFile, task.PolicyFile,
	account.RecordFile, leaveLog, UpdateFile, FloorsFile, guardLock, settleLock, "crontab", identity.LockFile, supervisorLock, recordFile,
}

// removeBase removes the agent's files from the state directory, and then the directory. A directory that was there before the
// agent stays, with its former mode and owner.
func (m Manager) removeBase() error {
	before := m.record().Found
	folders := []string{versionsFolder, task.WorkFolder, workload.EnginesFolder, session.ProgramsFolder, process.Folder, ShippingFolder}
	for _, folder := range folders {
		if err := os.RemoveAll(filepath.Join(m.Base, folder)); err != nil {
			return explain(m.Base, err)
		}
	}
	for _, name := range append([]string{currentLink, goodLink, backLink, beforeLink}, ourFiles[:]...) {
		for _, pattern := range []string{name + ".new", name} {
			paths, _ := filepath.Glob(filepath.Join(m.Base, pattern))
			for _, path := range paths {
				if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return explain(path, err)
				}
			}
		}
	}
	if before != nil {
		return explain(m.Base, before.give(m.Base))
	}
	if err := os.Remove(m.Base); err != nil && !errors.Is(err, fs.ErrNotExist) && !(errors.Is(err, syscall.EBUSY) && identity.Empty(m.Base)) {
		return fmt.Errorf("%s holds something that is not the agent's and was left: see what it is, and remove it: %w", m.Base, err)
	}
	return nil
}
