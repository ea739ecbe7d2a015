package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// How the supervisor waits.
const (
	firstPause  = time.Second
	longPause   = time.Minute
	steady      = time.Minute              // after a run of this length the next pause is short again
	adoptPause  = 2 * time.Second          // between two looks at an agent that this supervisor did not start
	maxLastWord = 4 << 10                  // bytes of what an agent said before it ended
	stopTime    = unitStop + 5*time.Second // for an agent or a supervisor to end, before it is killed
)

// lastWords is a file in the state directory. It holds what the agent has written to its standard error since its last start, such
// as a panic. The agent's log is another file.
const lastWords = "agent.err"

// Keeper keeps an agent running if no init system does. A state directory has one Keeper at a time.
type Keeper struct {
	Base     string
	Settings string // the file with the agent's settings; it is read before every start
	Logger   *slog.Logger
	// Agent runs the agent until it ends. If it is nil, the current build in Base runs.
	Agent func(ctx context.Context) error
	// Settle is called before every start. It may change which build is the current one. If it is nil, the command settle of the last
	// good build does that.
	Settle func(ctx context.Context)
	// Ready is called once, when this process has become the supervisor; nil: nobody is told.
	Ready    func()
	Patience Patience // with an agent that hangs; empty: as the unit has it

	watch *Watch // nil: Agent was given
}

// Run starts the agent, and starts it again whenever it ends, until ctx is done. Then it ends the agent too. The error is a SupervisedError
// if another supervisor runs. It does not disturb an agent whose supervisor was killed: it waits until that agent ends.
func (k Keeper) Run(ctx context.Context) error {
	lock, err := lockSupervisor(k.Base)
	if err != nil {
		return err
	}
	defer lock.Close()
	k.Logger = cmp.Or(k.Logger, slog.New(slog.DiscardHandler))
	if k.Agent == nil {
		if k.watch, err = NewWatch(k.Base, k.Patience); err != nil {
			k.Logger.Warn("an agent that hangs would not be noticed: its signs of life cannot be heard", "error", err)
		}
		defer k.watch.Close()
		k.Agent = k.agent
	}
	if k.Settle == nil {
		k.Settle = k.settle
	}
	if k.Ready != nil {
		k.Ready()
	}
	pause := firstPause
	for crashes := 0; ctx.Err() == nil; crashes++ {
		if !k.adopt(ctx) {
			break
		}
		k.Settle(ctx)
		build := Layout{Base: k.Base}.Current()
		started := time.Now()
		err := k.Agent(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(started) >= steady {
			pause = firstPause
			crashes = 0
		}
		if next := (Layout{Base: k.Base}).Current(); next != build { // it ended for that, and a version on trial has no time for long pauses
			k.Logger.Info("another version is started", "build", "sha256:"+next)
			pause = firstPause
			crashes = -1
			transport.Sleep(ctx, pause)
			continue
		}
		k.Logger.Warn("the agent ended", "after", time.Since(started).Round(time.Millisecond).String(), "why", ending(err),
			"again_in", pause.String())
		k.tell(crashes+1, err, pause)
		transport.Sleep(ctx, pause)
		pause = min(2*pause, longPause)
	}
	return nil
}

// adopt waits while an agent runs that this supervisor did not start. It reports false if ctx was done before that ended.
func (k Keeper) adopt(ctx context.Context) bool {
	watched, stop := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer stop()
	if k.watch != nil && identity.Running(k.Base) {
		listening.Go(func() { k.watch.endHung(watched, k.Logger) })
	}
	for said := false; identity.Running(k.Base); said = true {
		if !said {
			k.Logger.Info("an agent runs here already: waiting for its end")
		}
		if !transport.Sleep(ctx, adoptPause) {
			return false
		}
	}
	return ctx.Err() == nil
}

// tell writes a crash into the status file, where people look. The next agent writes it anew.
func (k Keeper) tell(crashes int, failed error, pause time.Duration) {
	status, _ := identity.ReadStatus(k.Base)
	status.Phase = identity.PhaseCrashing
	status.PID = 0
	status.LastError = fmt.Sprintf("it ended %d times in a row, last with: %s; it is started again after %s", crashes, ending(failed), pause)
	if err := identity.WriteStatus(k.Base, status); err != nil {
		k.Logger.Warn("the status file cannot be written", "error", err)
	}
}

// ending says how a run of the agent ended. An agent that nobody stopped should not end with success either.
func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// environ is what the agent is started with.
func (k Keeper) environ() ([]string, error) {
	settings, err := ReadSettings(k.Settings)
	if err != nil {
		return nil, err
	}
	environ := append(wire.WithoutEnv(os.Environ()), settings.Environ()...)
	return append(environ, wire.EnvSupervised+"=1"), nil // the agent then logs to its file alone
}

// settle lets the last good build decide which build is started. Whatever happens to it, the start goes on.
func (k Keeper) settle(ctx context.Context) {
	environ, err := k.environ()
	if err != nil || (Layout{Base: k.Base}).Good() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, SettleTime)
	defer cancel()
	command := exec.CommandContext(ctx, Layout{Base: k.Base}.GoodProgram(), "settle", "--state", k.Base)
	command.Env = environ
	command.Dir = "/"
	command.WaitDelay = time.Second
	if out, err := command.CombinedOutput(); err != nil {
		k.Logger.Warn("the last good version did not look at the one that is started", "error", err, "says", oneLine(string(out)))
	}
}

// agent runs the current build, in a session of its own: a signal to the supervisor's session does not reach it.
func (k Keeper) agent(ctx context.Context) error {
	environ, err := k.environ()
	if err != nil {
		return err
	}
	said, err := os.OpenFile(filepath.Join(k.Base, lastWords), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	err = k.watch.Run(ctx, nil, func(command *exec.Cmd) {
		command.Env = environ
		command.Stderr = said
		command.Dir = "/"
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	})
	if word := k.lastWord(said); word != "" && err != nil {
		return fmt.Errorf("%w: %s", err, word)
	}
	return err
}

// lastWord is the first line that the agent wrote to its standard error: the first line of a panic says what it is about.
func (k Keeper) lastWord(file *os.File) string {
	raw := make([]byte, maxLastWord)
	n, err := file.ReadAt(raw, 0)
	if n == 0 && err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw[:n])), "\n")
	return oneLine(line)
}

// errStuck means that a process did not end although it was killed.
var errStuck = errors.New("it does not end")

// end has processes end. It asks them, and kills those that are left after the grace. left lists them: those that were started since are
// among them.
func end(ctx context.Context, grace time.Duration, left func() []int) error {
	var pids []int
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		deadline := time.Now().Add(grace)
		for over := false; !over; over = time.Now().After(deadline) {
			if pids = left(); len(pids) == 0 {
				return nil
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("end process %d: %w: run it as its user, or as root (sudo)", pid, err)
				}
			}
			if !transport.Sleep(ctx, 50*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
	return fmt.Errorf("process %d: %w: see what it waits for (cat /proc/%d/stack), or restart the machine", pids[0], errStuck, pids[0])
}

// endAgent ends the agent with this process id, if it is the one that runs; 0: none is.
func (m Manager) endAgent(ctx context.Context, pid int) error {
	return end(ctx, stopTime, func() []int {
		if pid == 0 || m.Agent() != pid {
			return nil
		}
		return []int{pid}
	})
}
