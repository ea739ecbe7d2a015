package history_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"muster/store/history"
)

// crashFile names, for the child that is going to be killed, the file to write to; crashRound its number.
const (
	crashFile  = "HISTORY_TEST_CRASH_FILE"
	crashRound = "HISTORY_TEST_CRASH_ROUND"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		writeUntilKilled(path, os.Getenv(crashRound))
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes hour after hour of a node of its own, prints each, and rolls up what is due.
func writeUntilKilled(path, round string) {
	ctx := context.Background()
	f, err := history.Open(ctx, path, time.Now)
	fail(err)
	names, err := f.Name(ctx, round, nil, noon())
	fail(err)
	for hour := noon(); ; hour = hour.Add(time.Hour) {
		var minutes []history.Minute
		for i := range 60 {
			at := hour.Add(time.Duration(i) * time.Minute)
			minutes = append(minutes, history.Minute{Node: names.Node, Start: history.Raw.Number(at),
				Samples: []history.Sample{sample(at, 2), sample(at.Add(30*time.Second), 2)}})
		}
		fail(f.Keep(ctx, minutes))
		fmt.Println(names.Node, hour.Unix())
		due, err := f.Due(ctx, hour.Add(1000*time.Hour), 10)
		fail(err)
		for _, d := range due {
			fail(f.RollUp(ctx, d))
		}
	}
}

func fail(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestKill9 kills a process that writes and rolls up, at random moments. What it had written is there, in each tier once.
func TestKill9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	type hour struct{ node, unix int64 }
	var written []hour
	for round := range 6 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), crashFile+"="+path, fmt.Sprintf("%s=%d", crashRound, round))
		out, err := child.StdoutPipe()
		must(t, err)
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		must(t, child.Start())
		lines := bufio.NewScanner(out)
		for until := 3 + rand.IntN(20); until > 0 && lines.Scan(); until-- {
			var h hour
			if _, err := fmt.Sscan(lines.Text(), &h.node, &h.unix); err != nil {
				t.Fatalf("the child said %q", lines.Text())
			}
			written = append(written, h)
		}
		must(t, child.Process.Kill())
		_ = child.Wait()
	}
	f, err := history.Open(t.Context(), path, noon)
	must(t, err)
	defer f.Close()
	rollAll(t, f)
	for _, h := range written {
		at := time.Unix(h.unix, 0)
		minutes, err := f.Points(t.Context(), history.Minutes, h.node, history.Minutes.Number(at), history.Minutes.Number(at))
		must(t, err)
		hours, err := f.Points(t.Context(), history.Hours, h.node, history.Hours.Number(at), history.Hours.Number(at))
		must(t, err)
		if len(minutes) != 60 || minutes[7].Heard != 2 {
			t.Fatalf("hour %s of node %d has %d minutes", at, h.node, len(minutes))
		}
		for _, p := range hours {
			if p.Start == h.unix && p.Heard != 120 {
				t.Fatalf("hour %s of node %d has %d samples, want 120", at, h.node, p.Heard)
			}
		}
	}
	t.Logf("%d hours were written before the kills", len(written))
}
