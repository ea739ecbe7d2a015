package service_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/service"
	"muster/agent/wire"
)

// TestEachWayBackIsInTime adds up what the slowest way back of each kind takes, from the beginning of the trial.
func TestEachWayBackIsInTime(t *testing.T) {
	const (
		end   = time.Second      // for the old agent to end
		crash = 20 * time.Second // of life, before a version ends by itself: one that lives longer is ended by its time
		asked = 30 * time.Second // for the first answer of a gateway: then the agent is ready
		alive = time.Second      // from the start of the good version to its heartbeat
	)
	b := service.TheBudget()
	begin := end + b.Restart + service.SettleTime // an earlier settle makes no call, and takes some milliseconds
	again := b.Restart + service.SettleTime + alive
	for kind, takes := range map[string]time.Duration{
		"ends at its start":      begin + 3*(crash+b.Restart) + again,
		"is no program":          begin + 3*b.Restart + again,
		"hangs before it starts": end + b.Restart + b.Start + b.Stop + again,
		"hangs once it is ready": end + b.Restart + asked + b.Watchdog + again,
		"hangs late":             b.Guard + service.SettleTime + b.Grace + b.Restart + alive,
		"does not report":        wire.TrialTime + b.Stop/2 + again,
		"under the supervisor":   b.Guard + service.SettleTime + b.Grace + 4*b.Pause + alive,
	} {
		if takes > service.WayBack {
			t.Errorf("%s: back after %s, which is more than %s", kind, takes, service.WayBack)
		}
		t.Logf("%s: %s", kind, takes)
	}
}

func TestGuardLeavesATrialItsTime(t *testing.T) {
	for _, test := range []struct {
		name    string
		ends    time.Duration // by itself
		decides int           // so many times before it goes back
		asked   int
		after   time.Duration
	}{
		{"the version is good", 40 * time.Second, 0, 0, 40 * time.Second},
		{"its time is over", time.Hour, 1, 1, 93 * time.Second},
		{"the gateway is away for a while", time.Hour, 3, 3, 103 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := privateDir(t)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				asked := 0
				g := service.Guard{
					Base: base,
					Open: func() (string, bool) { return "none", time.Since(began) < test.ends },
					Settle: func(context.Context) bool {
						asked++
						return asked == test.decides
					},
				}
				second := make(chan error)
				go func() {
					time.Sleep(time.Second)
					second <- g.Run(t.Context())
				}()
				if err := g.Run(t.Context()); err != nil || asked != test.asked || time.Since(began) != test.after {
					t.Errorf("%v, %d decisions, %s", err, asked, time.Since(began))
				}
				if err := <-second; err != nil {
					t.Errorf("a second guard: %v", err)
				}
			})
		})
	}
}

func TestGuardNeedsItsDirectory(t *testing.T) {
	if err := (service.Guard{Base: filepath.Join(t.TempDir(), "none")}).Run(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, err := service.SettleLock(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error")
	}
	if err := service.StartGuard(t.TempDir(), "auto"); err == nil {
		t.Error("without a good version: no error")
	}
}

// shellBuild makes a shell the build of a layout, and runs a script with it.
func shellBuild(t *testing.T, l service.Layout, script string) (build string, shell *exec.Cmd) {
	t.Helper()
	raw, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	build = hex.EncodeToString(sum[:])
	if err := os.MkdirAll(filepath.Dir(l.Version(build)), 0o755); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a program that a test beside this one forks now would hold the file open for writing, so that it cannot be run
	err = os.WriteFile(l.Version(build), raw, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	shell = exec.Command(l.Version(build), "run")
	shell.Dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(shell.Dir, "run"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	shell.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ready, err := shell.StdoutPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Process.Kill() })
	if _, err := ready.Read(make([]byte, 1)); err != nil { // its script is at work
		t.Fatal(err)
	}
	return build, shell
}

// TestGuardEndsAVersionThatHangs: a version that is told to end ends, and one that does not listen is killed. Other versions run on.
func TestGuardEndsAVersionThatHangs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script string
		signal syscall.Signal
	}{
		{"listens", "echo; while :; do sleep 0.1; done", syscall.SIGTERM},
		{"hangs", "trap '' TERM; echo; while :; do sleep 0.1; done", syscall.SIGKILL},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := service.Layout{Base: t.TempDir()}
			build, shell := shellBuild(t, l, test.script)
			other := service.Layout{Base: t.TempDir()}
			_, bystander := shellBuild(t, other, "echo; sleep 60")
			ended := make(chan error, 1)
			go func() { ended <- shell.Wait() }()
			if err := l.EndRuns(t.Context(), build); err != nil {
				t.Error(err)
			}
			<-ended
			if status := shell.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != test.signal {
				t.Errorf("ended by %s", status.Signal())
			}
			if err := syscall.Kill(bystander.Process.Pid, 0); err != nil {
				t.Errorf("the agent of another directory: %v", err)
			}
		})
	}
}

func TestSettleLockIsHeldByOne(t *testing.T) {
	base := t.TempDir()
	free, err := service.SettleLock(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := service.SettleLock(ctx, base); err == nil {
		t.Error("two have the lock")
	}
	time.AfterFunc(50*time.Millisecond, free)
	again, err := service.SettleLock(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
