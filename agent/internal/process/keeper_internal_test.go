package process

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/host"
)

// TestHeld: a process that cannot be killed keeps no run open and no processor busy, and its end is waited for.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kills atomic.Int32
		k := &keeper{folder: t.TempDir(), main: 2, gone: make(chan struct{}), ended: make(chan syscall.WaitStatus, 1)}
		k.each = func(s syscall.Signal) int {
			select {
			case <-k.gone:
				return 0
			default:
			}
			if s == syscall.SIGKILL {
				kills.Add(1)
			}
			return 2
		}
		over := make(chan ending, 1)
		go func() { over <- k.watch(nil) }()
		k.ended <- 0
		time.Sleep(time.Hour)
		if n := kills.Load(); n < 100 || n > 3700 {
			t.Errorf("killed %d times in an hour", n)
		}
		var end ending
		if err := readJSON(filepath.Join(k.folder, exitFile), &end); err != nil || end.Held != 2 || end.Code != 0 {
			t.Errorf("%+v, %v", end, err)
		}
		r := run{keeping: keeping{Keeper: host.ProcessOf(os.Getpid())}}
		if r.ended(end); !r.held() || !strings.Contains(r.Why, "could not be ended (processes: 2)") || strings.Contains(r.Why, "were ended") {
			t.Errorf("%+v", r)
		}
		close(k.gone)
		if end := <-over; end.Held != 0 || end.Left != 2 {
			t.Errorf("%+v", end)
		}
	})
}
