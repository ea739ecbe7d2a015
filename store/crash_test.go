package store_test

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
)

// crashDatabase names, for the child that is going to be killed, the database to write to.
const crashDatabase = "STORE_TEST_CRASH_DATABASE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashDatabase); path != "" {
		writeUntilKilled(path, os.Getenv("STORE_TEST_CRASH_ROUND"))
	}
	os.Exit(m.Run())
}

// writeUntilKilled enrols nodes from several goroutines, half of them competing for single uses, and prints each acknowledged one.
func writeUntilKilled(path, round string) {
	s, err := store.Open(context.Background(), store.Options{Path: path, MasterKey: masterKey()})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				single := fmt.Sprintf("mse_%s_%d", round, i) // one use that all writers want
				_ = s.CreateToken(context.Background(), token(single, 1))
				for _, credential := range []string{"mse_many", single} {
					name := fmt.Sprintf("%s-%d-%d-%s", round, w, i, credential)
					switch err := s.Enrol(context.Background(), enrolment(credential, name)); {
					case err == nil:
						fmt.Println(credential, name)
					case !errors.Is(err, store.ErrConflict):
						fmt.Println("enrol:", err)
						os.Exit(1)
					}
				}
			}
		})
	}
	writers.Wait()
}

// TestKill9 kills a writing process at random moments: what it acknowledged is there, and no use was taken twice.
func TestKill9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s := openAt(t, path)
	must(t, s.CreateToken(t.Context(), token("mse_many", 1<<30)))
	must(t, s.Close())
	acknowledged := map[string]string{} // node name: credential
	for round := range 6 {
		killAfter(t, path, round, 1+rand.IntN(400), acknowledged)
		s := openAt(t, path)
		checkAcknowledged(t, s, acknowledged)
		must(t, s.Close())
	}
	t.Logf("%d enrolments were acknowledged", len(acknowledged))
}

// killAfter runs a child until it has acknowledged so many enrolments, and reads what else it said before it died.
func killAfter(t *testing.T, path string, round, lines int, acknowledged map[string]string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), crashDatabase+"="+path, fmt.Sprint("STORE_TEST_CRASH_ROUND=", round))
	out, err := child.StdoutPipe()
	must(t, err)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, child.Start())
	said := bufio.NewScanner(out)
	for n := 1; said.Scan(); n++ {
		credential, name, ok := strings.Cut(said.Text(), " ")
		if !ok || !strings.HasPrefix(credential, "mse_") {
			t.Fatalf("the child said %q", said.Text())
		}
		acknowledged[name] = credential
		if n == lines {
			must(t, child.Process.Kill()) // SIGKILL
		}
	}
	if err := child.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
}

func checkAcknowledged(t *testing.T, s *store.Store, acknowledged map[string]string) {
	t.Helper()
	singles := map[string]int{}
	for name, credential := range acknowledged {
		r, err := s.Recorded(t.Context(), credential, "key-"+name)
		if err != nil || r.Node.Name != name || r.Certificate.Fingerprint != "print-"+name {
			t.Errorf("%s was acknowledged, but is recorded as %q, %v", name, r.Node.Name, err)
		}
		if credential != "mse_many" {
			singles[credential]++
		}
	}
	for credential, n := range singles {
		k, err := s.Token(t.Context(), credential)
		must(t, err)
		if n != 1 || k.Used != 1 {
			t.Errorf("%s has one use: %d were acknowledged, %d are stored", credential, n, k.Used)
		}
	}
	many, err := s.Token(t.Context(), "mse_many")
	must(t, err)
	names, kept := list(t, s, store.NodeQuery{Limit: 1000})
	total := len(names)
	if total < len(acknowledged) || total != kept {
		t.Errorf("%d nodes and a kept total of %d, for %d acknowledged", total, kept, len(acknowledged))
	}
	if got := countUses(t, s); got != total || many.Used > total {
		t.Errorf("%d uses are taken for %d nodes", got, total)
	}
}

// countUses adds up what all tokens have used.
func countUses(t *testing.T, s *store.Store) int {
	t.Helper()
	tokens, err := s.Tokens(t.Context(), store.TokenQuery{All: true})
	must(t, err)
	used := 0
	for _, k := range tokens {
		used += k.Used
	}
	return used
}
