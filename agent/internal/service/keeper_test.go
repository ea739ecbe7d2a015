package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
)

// privateDir is a state directory.
func privateDir(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKeeperBacksOff(t *testing.T) {
	base := privateDir(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		began := time.Now()
		var at []time.Duration
		k := service.Keeper{Base: base, Agent: func(context.Context) error {
			at = append(at, time.Since(began))
			switch len(at) {
			case 9:
				time.Sleep(time.Minute)
			case 11:
				stop()
			}
			return errors.New("exit status 3: no such thing")
		}}
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60, 61, 2} // the last run but one was a long one
		for i := range want {
			pause := at[i]
			if i > 0 {
				pause -= at[i-1]
			}
			if pause != want[i]*time.Second {
				t.Errorf("start %d after %s, want %s", i, pause, want[i]*time.Second)
			}
		}
	})
	status, err := identity.ReadStatus(base)
	if err != nil || status.Phase != identity.PhaseCrashing || !strings.Contains(status.LastError,
		"ended 2 times in a row, last with: exit status 3: no such thing") {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestKeeperIsAlone(t *testing.T) {
	base := privateDir(t)
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan struct{})
	ended := make(chan error)
	first := service.Keeper{
		Base: base, Ready: func() { close(ready) }, Agent: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	}
	go func() { ended <- first.Run(ctx) }()
	<-ready
	if pid, running := service.Supervisor(base); pid != os.Getpid() || !running {
		t.Errorf("supervisor %d, %v", pid, running)
	}
	var already service.SupervisedError
	if err := (service.Keeper{Base: base}).Run(ctx); !errors.As(err, &already) || already.PID != os.Getpid() {
		t.Errorf("a second one: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, running := service.Supervisor(base); running {
		t.Error("the lock is held by nobody")
	}
	if err := (service.Keeper{Base: filepath.Join(base, "none")}).Run(ctx); err == nil || errors.As(err, &already) {
		t.Errorf("without a directory: %v", err)
	}
}

// TestKeeperWaitsForAnAgent: a supervisor does not start a second agent beside one that another supervisor left behind.
func TestKeeperWaitsForAnAgent(t *testing.T) {
	base := privateDir(t)
	synctest.Test(t, func(t *testing.T) {
		left, err := identity.Open(base)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		started := make(chan time.Time, 1)
		ended := make(chan error)
		go func() {
			ended <- service.Keeper{Base: base, Agent: func(ctx context.Context) error { started <- time.Now(); <-ctx.Done(); return nil }}.Run(ctx)
		}()
		time.Sleep(time.Hour)
		gone := time.Now()
		left.Close()
		if waited := (<-started).Sub(gone); waited > 2*time.Second {
			t.Errorf("started %s after the other one ended", waited)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestKeeperSettlesBeforeEachStart: the decision comes before the start, and a change of the version makes the next pause short.
func TestKeeperSettlesBeforeEachStart(t *testing.T) {
	base := privateDir(t)
	l := service.Layout{Base: base}
	var builds []string
	for _, text := range []string{"one", "two"} {
		path := filepath.Join(t.TempDir(), text)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		build, err := l.Install(path)
		if err != nil {
			t.Fatal(err)
		}
		builds = append(builds, build)
	}
	use := func(build string) {
		if err := l.SetCurrent(build); err != nil {
			t.Error(err)
		}
	}
	use(builds[0])
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		began := time.Now()
		var at []string
		settled := 0
		k := service.Keeper{Base: base}
		k.Settle = func(context.Context) {
			settled++
			if settled == 8 {
				use(builds[0])
			}
		}
		k.Agent = func(context.Context) error {
			at = append(at, fmt.Sprintf("%s %s", map[string]string{builds[0]: "one", builds[1]: "two"}[l.Current()], time.Since(began)))
			switch len(at) {
			case 5:
				use(builds[1])
				return nil
			case 8:
				stop()
			}
			return errors.New("exit status 2")
		}
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
		want := []string{"one 0s", "one 1s", "one 3s", "one 7s", "one 15s", "two 16s", "two 17s", "one 19s"}
		if !slices.Equal(at, want) || settled != len(want) {
			t.Errorf("%d decisions, starts %q", settled, at)
		}
	})
}

// TestKeeperAsksTheGoodVersion: the last good version is asked with the agent's settings, and its failure stops nothing.
func TestKeeperAsksTheGoodVersion(t *testing.T) {
	base := privateDir(t)
	l := service.Layout{Base: base}
	program := filepath.Join(t.TempDir(), "program")
	script := "#!/bin/sh\necho \"$MUSTER_NAME $*\" >>" + base + "/calls\n[ $1 = run ] || { echo no >&2; exit 1; }\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(settings, []byte("MUSTER_NAME=gpu-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build, err := l.Install(program)
	if err == nil {
		err = errors.Join(l.SetCurrent(build), l.SetGood(build))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var said bytes.Buffer
	k := service.Keeper{Base: base, Settings: settings, Logger: slog.New(slog.NewTextHandler(&said, nil))}
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	calls := func() string { raw, _ := os.ReadFile(filepath.Join(base, "calls")); return string(raw) }
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(calls(), " run\n") && time.Now().Before(deadline); {
		<-time.After(5 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, want := calls(), "gpu-1 settle --state "+base+"\ngpu-1 run\n"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	if !strings.Contains(said.String(), "did not look") || !strings.Contains(said.String(), "says=no") {
		t.Errorf("log %s", said.String())
	}
}
