package workload_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/task"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

// TestMain lets this program be the engines, under their names.
func TestMain(m *testing.M) {
	if slices.Contains([]string{"docker", "podman", "nerdctl"}, filepath.Base(os.Args[0])) && os.Getenv(playVar) != "" {
		os.Exit(playProgram())
	}
	os.Exit(m.Run())
}

const (
	digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	image  = "registry.example:5000/team/model@" + digest
	gpu    = "GPU-5d2f1111-2222-3333-4444-555555555555"
)

// node is a machine with played engines.
type node struct {
	*testing.T
	host   workload.Host
	folder string
	out    bytes.Buffer
	job    task.Job
}

// newNode has the engines that are named.
func newNode(t *testing.T, engines ...string) *node {
	t.Helper()
	n := &node{T: t, folder: t.TempDir()}
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range engines {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(n.folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		n.play(name, played{})
	}
	n.host = workload.Host{State: t.TempDir(), Node: "n-1", Env: []string{"PATH=" + bin, playVar + "=" + n.folder, "DOCKER_CONFIG=/none"},
		Settle: 5 * time.Millisecond, Exec: playHere}
	n.job = task.Job{ID: "aaaaaaaaaaaaaaaa", Output: &n.out, Dir: t.TempDir(),
		Secrets: func(context.Context) (map[string]string, error) {
			return nil, errors.New("nobody should ask for secrets")
		}}
	return n
}

// lends is a gateway that lends these secrets.
func (n *node) lends(secrets map[string]string) {
	n.job.Secrets = func(context.Context) (map[string]string, error) { return secrets, nil }
}

func (n *node) play(engine string, p played) {
	n.Helper()
	raw, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.folder, engine, "played"), raw, 0o600)
	}
	if err != nil {
		n.Fatal(err)
	}
}

// change alters how an engine behaves, and keeps what it knows.
func (n *node) change(engine string, how func(*played)) {
	n.Helper()
	p := n.state(engine)
	how(&p)
	n.play(engine, p)
}

func (n *node) state(engine string) played {
	n.Helper()
	var p played
	raw, err := os.ReadFile(filepath.Join(n.folder, engine, "played"))
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		n.Fatal(err)
	}
	return p
}

// calls are those that begin with these words, of all engines.
func (n *node) calls(words ...string) []asked {
	n.Helper()
	raw, err := os.ReadFile(filepath.Join(n.folder, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.Fatal(err)
	}
	var all []asked
	for line := range bytes.Lines(raw) {
		var a asked
		if err := json.Unmarshal(line, &a); err != nil {
			n.Fatal(err)
		}
		if len(a.Args) >= len(words) && slices.Equal(a.Args[:len(words)], words) {
			all = append(all, a)
		}
	}
	return all
}

// only is the one call that begins with these words.
func (n *node) only(words ...string) asked {
	n.Helper()
	all := n.calls(words...)
	if len(all) != 1 {
		n.Fatalf("%d calls of %q, want 1: %+v", len(all), words, n.calls())
	}
	return all[0]
}

func params() *wire.WorkloadLaunch {
	return &wire.WorkloadLaunch{Name: "model", Image: image}
}

func (n *node) launch(p *wire.WorkloadLaunch) task.Outcome {
	n.Helper()
	if err := p.Check(); err != nil {
		n.Fatal(err) // the agent never gets such params
	}
	return n.host.Launch(n.Context(), n.job, p)
}

// launched is a launch that must work.
func (n *node) launched(p *wire.WorkloadLaunch) task.Outcome {
	n.Helper()
	outcome := n.launch(p)
	if outcome.Error != "" || outcome.ExitCode != 0 {
		n.Fatalf("launch: %+v\n%s", outcome, n.out.String())
	}
	return outcome
}

// refused checks that an outcome is a failure whose error has all these words.
func (n *node) refused(outcome task.Outcome, words ...string) {
	n.Helper()
	if outcome.Error == "" || outcome.ExitCode == 0 {
		n.Fatalf("not refused: %+v\n%s", outcome, n.out.String())
	}
	for _, word := range words {
		if !strings.Contains(outcome.Error, word) {
			n.Errorf("the error does not say %q: %s", word, outcome.Error)
		}
	}
}

func (n *node) value(outcome task.Outcome, name, want string) {
	n.Helper()
	if got := string(outcome.Values[name]); got != want {
		n.Errorf("value %s = %s, want %s", name, got, want)
	}
}

// none checks that an engine has no container and no call but questions was made.
func (n *node) none(engine string) {
	n.Helper()
	if left := n.state(engine).Containers; len(left) > 0 {
		n.Errorf("containers are left: %+v", left)
	}
}

func (n *node) printed(words ...string) {
	n.Helper()
	for _, word := range words {
		if !strings.Contains(n.out.String(), word) {
			n.Errorf("the output does not say %q:\n%s", word, n.out.String())
		}
	}
}
