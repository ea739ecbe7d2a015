package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"muster/agent/internal/identity"
)

// Bounds of the supervisor's patience.
const (
	firstPause  = time.Second
	longPause   = time.Minute
	steady      = time.Minute      // an agent that ran this long starts with a short pause again
	stopTime    = 15 * time.Second // an agent that was told to end gets this long
	adoptPause  = 2 * time.Second  // between looks at an agent that another supervisor left
	maxLastWord = 4 << 10          // bytes of what an agent said before it ended
)

// lastWords is in the state directory: what the agent wrote to its standard error since it was last started, such as a
// panic. Its log has a file of its own.
const lastWords = "agent.err"

// Keeper keeps an agent running where no init system does. There is one on a state directory.
type Keeper struct {
	Base     string
	Settings string // the file that holds the agent's; read again before every start
	Logger   *slog.Logger
	// Agent runs the agent to its end; nil runs Base's current one.
	Agent func(ctx context.Context) error
	// Ready is told once that this is the supervisor now; nil: nobody is.
	Ready func()
}

// Run restarts the agent whenever it ends, until ctx is done, and then ends it too. The error is a SupervisedError where
// another supervisor runs. An agent that was left by a supervisor that died goes on undisturbed: Run waits for its end.
func (k Keeper) Run(ctx context.Context) error {
	lock, err := lockSupervisor(k.Base)
	if err != nil {
		return err
	}
	defer lock.Close()
	if k.Logger == nil {
		k.Logger = slog.New(slog.DiscardHandler)
	}
	if k.Agent == nil {
		k.Agent = k.agent
	}
	if k.Ready != nil {
		k.Ready()
	}
	pause := firstPause
	for crashes := 0; ctx.Err() == nil; crashes++ {
		if !k.adopt(ctx) {
			break
		}
		started := time.Now()
		err := k.Agent(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(started) >= steady {
			pause, crashes = firstPause, 0
		}
		k.Logger.Warn("the agent ended", "after", time.Since(started).Round(time.Millisecond).String(), "why", ending(err),
			"again_in", pause.String())
		k.tell(crashes+1, err, pause)
		sleep(ctx, pause)
		pause = min(2*pause, longPause)
	}
	return nil
}

// adopt waits while an agent runs that this supervisor did not start, and reports whether there is one to start now.
func (k Keeper) adopt(ctx context.Context) bool {
	for said := false; identity.Running(k.Base); said = true {
		if !said {
			k.Logger.Info("an agent runs here already: waiting for its end")
		}
		if !sleep(ctx, adoptPause) {
			return false
		}
	}
	return ctx.Err() == nil
}

// tell puts a crash where people look: in the status, for as long as no agent writes it.
func (k Keeper) tell(crashes int, failed error, pause time.Duration) {
	status, _ := identity.ReadStatus(k.Base)
	status.Phase, status.PID = identity.PhaseCrashing, 0
	status.LastError = fmt.Sprintf("it ended %d times in a row, last with: %s; it is started again after %s", crashes, ending(failed), pause)
	if err := identity.WriteStatus(k.Base, status); err != nil {
		k.Logger.Warn("the status file cannot be written", "error", err)
	}
}

func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// agent runs the current build. It is in a session of its own: what is sent to the supervisor's does not reach it.
func (k Keeper) agent(ctx context.Context) error {
	program := Layout{Base: k.Base}.Program()
	settings, err := ReadSettings(k.Settings)
	if err != nil {
		return err
	}
	said, err := os.OpenFile(filepath.Join(k.Base, lastWords), os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	command := exec.CommandContext(ctx, program, "run")
	command.Env = append(withoutMuster(os.Environ()), settings.Environ()...)
	command.Env = append(command.Env, SupervisedVariable+"=1")
	command.Stderr, command.Dir = said, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopTime
	err = command.Run()
	if word := k.lastWord(said); word != "" && err != nil {
		return fmt.Errorf("%w: %s", err, word)
	}
	return err
}

// SupervisedVariable tells run that its standard error is a file that nobody bounds, so that it logs to its own alone.
const SupervisedVariable = "MUSTER_SUPERVISED"

// lastWord is the first line of what the agent wrote last: of a panic, what it was about.
func (k Keeper) lastWord(file *os.File) string {
	raw := make([]byte, maxLastWord)
	n, err := file.ReadAt(raw, 0)
	if n == 0 && err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw[:n])), "\n")
	return oneLine(line)
}

func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// errStuck means that a process did not end although it was told to.
var errStuck = errors.New("it does not end")

// endProcess tells a process to end, later kills it, and waits until gone says so.
func endProcess(ctx context.Context, pid int, gone func() bool) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d: %w: run it as its user, or as root (sudo)", pid, err)
		}
		for deadline := time.Now().Add(stopTime + 5*time.Second); time.Now().Before(deadline); {
			if gone() {
				return nil
			}
			if !sleep(ctx, 20*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
	return fmt.Errorf("process %d: %w: see what it waits for (cat /proc/%d/stack), or restart the machine", pid, errStuck, pid)
}
