package provider_test

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
	"muster/store/provider"
	"muster/store/storetest"
)

// crashDatabase names, for the child that is going to be killed, the database to write to.
const crashDatabase = "PROVIDER_TEST_CRASH_DATABASE"

// Of the crash test: what one machine costs, and how many may run.
const (
	crashPrice = 1_990_000
	crashFits  = 3
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashDatabase); path != "" {
		fmt.Println(rentUntilKilled(path, os.Getenv("PROVIDER_TEST_CRASH_ROUND")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// rentUntilKilled rents and gives back from several goroutines under one limit, and saves large views of another account meanwhile. It
// prints what was acknowledged.
func rentUntilKilled(path, round string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{Path: path, MasterKey: storetest.MasterKey()})
	if err != nil {
		return err
	}
	r := provider.New(s.Records())
	say := func(what, id string, err error) {
		if err != nil {
			fmt.Println(err, id)
			os.Exit(1)
		}
		fmt.Println(what, id)
	}
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := 0; ; i++ {
			_, err := r.SaveView(ctx, "b", start, crashView(i))
			say("view", "b", err)
		}
	})
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				x := rental(fmt.Sprintf("r-%s-%d-%d", round, w, i), w, crashPrice)
				err := r.Intend(ctx, x)
				if errors.Is(err, provider.ErrLimit) {
					continue
				}
				say("intended", x.ID, err)
				x.State, x.Instance, x.Version = "booting", x.ID, 1
				l := lease("a", x.ID, x.ID)
				say("booting", x.ID, r.Created(ctx, x, l))
				x.State, x.Version = "ended", 2
				say("ended", x.ID, r.PutRental(ctx, x))
				l.State, l.Version = "ended", 1
				say("over", x.ID, r.PutLease(ctx, l))
			}
		})
	}
	writers.Wait()
	return nil
}

// crashView is a view that takes several batches: all instances differ from those of the view before, and a third of them is missing.
func crashView(i int) []provider.Instance {
	var all []provider.Instance
	for id := range 1800 {
		if id%3 != i%3 {
			one := instance(fmt.Sprint(id), "running", 1)
			one.Body = fmt.Sprint(i)
			all = append(all, one)
		}
	}
	return all
}

// TestKill9 kills a renting process at random moments: what it acknowledged is there, nothing is there by half, and no limit is passed.
func TestKill9(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "muster.db")
	reopen := func() (*store.Store, provider.Records) {
		s, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: storetest.MasterKey()})
		must(t, err)
		return s, provider.New(s.Records())
	}
	s, r := reopen()
	for _, name := range []string{"a", "b"} {
		must(t, r.AddAccount(t.Context(), account(name)))
		view(t, r, name)
	}
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(crashFits*crashPrice)), start, "account:ops"))
	request(t, r, "q", "a", "platform", 100)
	must(t, s.Close())
	steps := map[string]int{"intended": 1, "booting": 2, "ended": 3, "over": 4}
	said := map[string]string{}
	for round := range 3 {
		killAfter(t, path, round, 3+rand.IntN(60), said)
		s, r = reopen()
		if now := spent(t, r, provider.OfAccount, "a"); now[0] > crashFits*crashPrice || now[1] != 0 {
			t.Errorf("what runs costs %v", now)
		}
		left, err := r.Rentals(t.Context(), provider.RentalQuery{})
		must(t, err)
		stands := map[string]int{}
		for _, x := range left {
			l, err := r.Lease(t.Context(), "a", x.ID)
			if (x.Instance == "") != errors.Is(err, store.ErrNotFound) || x.Instance != "" && l.Rental != x.ID {
				t.Errorf("%s has instance %q and lease %+v, %v", x.ID, x.Instance, l, err)
			}
			stands[x.ID] = steps[x.State]
			if l.State == "ended" {
				stands[x.ID] = steps["over"]
			}
			giveBack(t, r, x, l)
		}
		for id, state := range said {
			if stands[id] < steps[state] {
				t.Errorf("%s was acknowledged as %s, and is at step %d", id, state, stands[id])
			}
		}
		wantSame(t, "when all is given back", spent(t, r, provider.OfAccount, "a"), [2]int64{})
		view(t, r, "b", crashView(round)...)
		list := listed(t, r, "b")
		current := 0
		for _, i := range list {
			if i.Missing == 0 && i.Body == fmt.Sprint(round) {
				current++
			}
		}
		wantSame(t, "of the view after", current, len(crashView(round)))
		must(t, s.Close())
	}
	if len(said) < 4 {
		t.Errorf("only %d rentals were made", len(said))
	}
}

// giveBack ends a rental and its lease.
func giveBack(t *testing.T, r provider.Records, x provider.Rental, l provider.Lease) {
	t.Helper()
	x.State = "ended"
	must(t, r.PutRental(t.Context(), x))
	if l.Version > 0 {
		l.State, l.EndedAt = "ended", &start
		must(t, r.PutLease(t.Context(), l))
	}
}

// killAfter runs a child until it has acknowledged so many steps, and reads what else it said before it died.
func killAfter(t *testing.T, path string, round, lines int, said map[string]string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashDatabase+"="+path, fmt.Sprint("PROVIDER_TEST_CRASH_ROUND=", round))
	out, err := child.StdoutPipe()
	must(t, err)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, child.Start())
	scan := bufio.NewScanner(out)
	for n := 1; scan.Scan(); n++ {
		var state, id string
		if _, err := fmt.Sscan(scan.Text(), &state, &id); err != nil || !strings.HasPrefix(id, "r-") && id != "b" {
			t.Fatalf("the child said %q", scan.Text())
		}
		if id != "b" {
			said[id] = state
		}
		if n == lines {
			must(t, child.Process.Kill()) // SIGKILL
		}
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
}
