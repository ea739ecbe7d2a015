package placement_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"muster/store"
	"muster/store/placement"
	"muster/store/storetest"
)

// crashDatabase names, for the child that is going to be killed, the database to write to.
const crashDatabase = "PLACEMENT_TEST_CRASH_DATABASE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashDatabase); path != "" {
		fmt.Println(claimUntilKilled(path, os.Getenv("PLACEMENT_TEST_CRASH_ROUND")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// claimUntilKilled claims, releases and cleans from several goroutines that all want the same slots, and prints what was acknowledged.
func claimUntilKilled(path, round string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{Path: path, MasterKey: storetest.MasterKey()})
	if err != nil {
		return err
	}
	r := placement.New(s.Records())
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				id, gpu := fmt.Sprintf("a-%s-%d-%d", round, w, i), i%4
				err := r.Claim(ctx, claim(id, fmt.Sprint("n-1-g", gpu)))
				if errors.Is(err, store.ErrConflict) {
					continue
				}
				say := func(what string, err error) {
					if err != nil {
						fmt.Println(err, id)
						os.Exit(1)
					}
					fmt.Println(what, id)
				}
				say(placement.Allocated, err)
				say(placement.Releasing, r.Release(ctx, placement.Release{ID: id, At: start}))
				say(placement.Released, r.Clean(ctx, id, "n-1", []string{key(gpu)}, start))
			}
		})
	}
	writers.Wait()
	return nil
}

// TestKill9 kills a claiming process at random moments: what it acknowledged is there, and no slot was given or lost between.
func TestKill9(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "muster.db")
	reopen := func() (*store.Store, placement.Records) {
		s, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: storetest.MasterKey()})
		must(t, err)
		return s, placement.New(s.Records())
	}
	s, r := reopen()
	addNodes(t, s, "n-1")
	ready(t, r, "n-1", 4)
	must(t, s.Close())
	steps := map[string]int{placement.Allocated: 1, placement.Releasing: 2, placement.Released: 3}
	said := map[string]string{}
	for round := range 4 {
		killAfter(t, path, round, 3+rand.IntN(200), said)
		s, r = reopen()
		for id, state := range said {
			if a := allocation(t, r, id); steps[a.State] < steps[state] || len(a.Holds) != 1 {
				t.Errorf("%s was acknowledged as %s, and is %+v", id, state, a)
			}
		}
		left, err := r.Live(t.Context())
		must(t, err)
		wantSame(t, "units of those that are not released", len(live(t, r)), len(left))
		for _, a := range left {
			if a.State == placement.Allocated {
				must(t, r.Release(t.Context(), placement.Release{ID: a.ID, At: start}))
			}
			must(t, r.Clean(t.Context(), a.ID, "n-1", []string{a.Holds[0].Key}, start))
		}
		wantSame(t, "after cleaning", live(t, r), map[string]string{})
		must(t, s.Close())
	}
}

// killAfter runs a child until it has acknowledged so many steps, and reads what else it said before it died.
func killAfter(t *testing.T, path string, round, lines int, said map[string]string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashDatabase+"="+path, fmt.Sprint("PLACEMENT_TEST_CRASH_ROUND=", round))
	out, err := child.StdoutPipe()
	must(t, err)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, child.Start())
	scan := bufio.NewScanner(out)
	for n := 1; scan.Scan(); n++ {
		var state, id string
		if _, err := fmt.Sscan(scan.Text(), &state, &id); err != nil || !strings.HasPrefix(id, "a-") {
			t.Fatalf("the child said %q", scan.Text())
		}
		said[id] = state
		if n == lines {
			must(t, child.Process.Kill()) // SIGKILL
		}
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
}
