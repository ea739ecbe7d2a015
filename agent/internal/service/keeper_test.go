package service_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
