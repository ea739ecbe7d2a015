package process_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/process"
	"muster/agent/wire"
)

// TestFolderOfAnother: a run whose folder was removed, as with the agent that started it, writes nothing into the folder of a later run of
// its name.
func TestFolderOfAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sh("x", "trap 'echo late; exit 3' TERM; while :; do sleep 0.1; done")
	keeper, _ := b.keeping("x")
	if err := os.RemoveAll(filepath.Join(b.State, process.Folder)); err != nil {
		t.Fatal(err)
	}
	b.sh("x", "echo new; exec sleep 1000")
	_ = syscall.Kill(keeper, syscall.SIGTERM)
	b.gone(keeper)
	if r, _ := b.Find("x"); r.State != wire.RunRunning || b.tail("x") != "new\n" {
		t.Errorf("%+v, output %q", r, b.tail("x"))
	}
}

// TestAgainOverRest: a program whose keeper was killed goes on. Another one of its name does not take its place.
func TestAgainOverRest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sh("k", "sleep 1000; true")
	keeper, main := b.keeping("k")
	_ = syscall.Kill(keeper, syscall.SIGKILL)
	b.await("k", wire.RunInterrupted)
	o := b.start(wire.WorkloadProcess{Name: "k", Command: []string{"true"}})
	if !strings.Contains(o.Error, "end them first (muster run stop k)") || !lives(main) {
		t.Errorf("%+v, the first one lives: %v", o, lives(main))
	}
	if left := b.Left(); len(left) != 1 || !strings.Contains(left[0], "ends it)") || strings.Contains(left[0], "kill 0") {
		t.Errorf("left %q", left)
	}
}

// TestWatch: the end of a run is told.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	news := make(chan struct{}, 1)
	b.sh("w", "read x < /dev/null; sleep 1.2")
	b.News = news
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- b.Watch(ctx) }()
	<-news // it runs
	<-news // it has ended
	if r, _ := b.Find("w"); r.State != wire.RunExited {
		t.Errorf("%+v", r)
	}
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}
