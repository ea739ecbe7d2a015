package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/api/providers"
	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/guest"
	"muster/gateway/internal/kit/cloudsim/vast"
)

// companyKey is that of the account at the simulated company.
const companyKey = "key-of-the-simulator-7f3a"

// bazaar is a house with a simulated vast.ai, on whose machines real agents run.
type bazaar struct {
	*house
	sim    *vast.Sim
	guests *guest.Guests
	api    string // URL
}

// newBazaar starts both, with the account on record. gpus says how many GPUs hosts have that have not what they are paid for.
func newBazaar(t *testing.T, gpus map[string]int, change func(*cloudsim.Config), hosts ...vast.Host) *bazaar {
	t.Helper()
	dir, err := os.MkdirTemp("", "muster-machines-") // nobody can enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	m := &bazaar{house: newHouse(t)}
	if m.guests, err = guest.New(dir, agentBinary(t), gpus); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.guests.Close()
		if t.Failed() {
			m.showLogs(dir)
		}
		os.RemoveAll(dir)
	})
	c := cloudsim.Config{Keys: map[string][]string{companyKey: nil}, OnStart: m.guests.Start, OnStop: m.guests.Stop, OnDestroy: m.guests.Stop}
	if change != nil {
		change(&c)
	}
	m.sim = vast.New(c, hosts...)
	server := httptest.NewServer(m.sim)
	t.Cleanup(server.Close)
	m.api = server.URL
	m.muster("provider", "add", "vast_ai", "--key-file", m.key(companyKey), "--url", m.api)
	return m
}

// showLogs shows what the agents said.
func (m *bazaar) showLogs(dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*", "log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		m.t.Logf("--- %s\n%s", path, text)
	}
}

// key is a file with an API key.
func (m *bazaar) key(text string) string {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// offered are hosts with so many H100 each, which cost 200 dollars an hour and more, so that costs of a minute can be told apart.
func offered(count, gpus int) (all []vast.Host) {
	for i := range int64(count) {
		all = append(all, vast.Host{ID: 101 + i, GPU: "H100 SXM", GPUs: gpus, MiB: 81559, Price: 200_000_000 + i*1_000_000, Disk: 100,
			Place: "Prague, CZ"})
	}
	return all
}

// muster runs a command, which may take minutes; a failure ends the test.
func (m *bazaar) muster(args ...string) string {
	m.t.Helper()
	code, out, errs := m.try(args...)
	if code != 0 {
		m.t.Fatalf("muster %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func (m *bazaar) try(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	code = run(ctx, append([]string{"--data", m.data}, args...), func(string) string { return "" }, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// rent rents machines, and waits until they are ready.
func (m *bazaar) rent(args ...string) providers.Rented {
	m.t.Helper()
	return bazaarAnswer[providers.Rented](m, append([]string{"rent", "--provider", "vast_ai", "--gpu", "H100", "--ttl", "1h", "--yes",
		"-o", "json"}, args...)...)
}

// bazaarAnswer is what a command answers in JSON.
func bazaarAnswer[T any](m *bazaar, args ...string) (out T) {
	m.t.Helper()
	text := m.muster(args...)
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		m.t.Fatalf("muster %s: %v in %s", strings.Join(args, " "), err, text)
	}
	return out
}

// plan looks at the company, and gives what is found.
func (m *bazaar) plan() providers.Plan {
	m.t.Helper()
	m.muster("provider", "sync", "vast_ai")
	return bazaarAnswer[providers.Plan](m, "provider", "plan", "-o", "json")
}

// gone waits until the company has no machine any more, and nothing is found.
func (m *bazaar) gone() {
	m.t.Helper()
	m.within(5*time.Minute, "all machines are destroyed, and nothing is found", func() bool {
		return len(m.there()) == 0 && len(m.plan().Findings) == 0
	})
}

// there are the machines that are not gone.
func (m *bazaar) there() (live []cloudsim.Machine) {
	for _, one := range m.sim.Machines() {
		if one.State != cloudsim.Gone {
			live = append(live, one)
		}
	}
	return live
}
