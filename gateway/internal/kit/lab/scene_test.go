//go:build real

package lab_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// budget is how long joining may take beyond the downloads, which cost next to nothing over loopback.
const budget = 3 * time.Second

// scene is one machine beside one gateway, and a workload on it that nothing may disturb.
type scene struct {
	*testing.T
	lab     *lab.Lab
	gateway *lab.Gateway
	box     *lab.Box
	user    string
	base    string // of the agent's files
	work    *lab.Workload
	before  map[string]string // the file tree before anything was installed
	token   lab.Token
	node    lab.Node
}

// newScene boots a machine; prepare changes it before its file tree is remembered.
func newScene(t *testing.T, root lab.Root, user string, prepare func(*lab.Box)) *scene {
	t.Helper()
	s := &scene{T: t, lab: lab.New(t), user: user, base: "/var/lib/muster-agent"}
	if user != "root" {
		s.base = "/home/" + user + "/.local/state/muster-agent"
	}
	s.gateway = s.lab.Gateway()
	s.box = s.lab.Box(root)
	s.box.AddGPU()
	s.box.Boot()
	prepare(s.box)
	s.work = s.box.Workload()
	s.before = s.box.Tree()
	s.token = s.gateway.Token()
	return s
}

func (s *scene) step(what string) {
	s.Helper()
	s.Logf("-- %s", what)
}

// paste is what a person does: the command goes into a shell's input, so that it stands in no argument list.
func (s *scene) paste(command string) string {
	s.Helper()
	out, err := s.box.Try(s.user, command)
	if err != nil {
		s.Fatalf("the pasted command: %v\n%s", err, out)
	}
	return out
}

// install pastes the command and expects the node online when it ends, told step by step.
func (s *scene) install() string {
	s.Helper()
	watched := s.lab.Watch(secret(s.token))
	start := time.Now()
	out := s.paste(s.token.Command)
	took := time.Since(start)
	if seen := watched(); len(seen) > 0 {
		s.Errorf("the token's secret stood in these processes' arguments: %q", seen)
	}
	s.Logf("from pasting to online: %s (budget %s beyond the downloads)\n%s", took.Round(time.Millisecond), budget, out)
	if !contains(out, "[1/5]", "[2/5]", "[3/5]", "[4/5]", "[5/5]", lab.GPU) {
		s.Errorf("join did not tell its five steps and the GPU")
	}
	if !s.gateway.Heard(start) {
		s.Fatalf("join ended well, but the node is not online: %+v", s.gateway.Nodes())
	}
	s.node = s.gateway.Node()
	return out
}

// tokenNowhere expects that neither a file nor a process has kept the token.
func (s *scene) tokenNowhere() {
	s.Helper()
	if found := s.box.Holding(secret(s.token)); len(found) > 0 {
		s.Errorf("the token's secret is still in %q", found)
	}
}

// back expects that the node is heard again within a time, and is the same one.
func (s *scene) back(limit time.Duration, after time.Time) {
	s.Helper()
	took := s.lab.Within(limit, "the node is heard again", func() bool { return s.gateway.Heard(after) })
	s.Logf("heard again %s after that", took.Round(time.Millisecond))
	if now := s.gateway.Node(); now.ID != s.node.ID {
		s.Errorf("the node is %s now, and was %s", now.ID, s.node.ID)
	}
}

// away closes the gateway until the agent has noticed, and opens it again.
func (s *scene) away() {
	s.Helper()
	s.gateway.Stop()
	s.lab.Until("the agent says that the gateway is away", func() bool {
		return strings.Contains(s.agent("status -o json"), `"last_error": "`)
	})
	s.gateway.Open()
	s.back(time.Minute, time.Now())
}

// agent runs the installed agent and gives what it says, whatever its exit status.
func (s *scene) agent(command string) string {
	out, _ := s.box.Try(s.user, s.base+"/current/muster-agent "+command)
	return out
}

// link is where one of the installation's links points.
func (s *scene) link(name string) string { return s.box.Sh("readlink " + s.base + "/" + name) }

// leave removes the agent and expects the machine as it was before.
func (s *scene) leave() {
	s.Helper()
	out, err := s.box.Try(s.user, s.base+"/current/muster-agent leave")
	if err != nil {
		s.Fatalf("leave: %v\n%s", err, out)
	}
	s.Log(out)
	if state := s.gateway.Node().State; state != "retired" {
		s.Errorf("after leave the node is %q, want retired", state)
	}
	if more := lab.Differences(s.before, s.box.Tree()); len(more) > 0 {
		s.Errorf("leave did not leave the machine as it was:\n%s", strings.Join(more, "\n"))
	}
	s.lab.Until("no process of the agent is left", func() bool { return s.box.Sh("pgrep muster-agent || true") == "" })
}

// secret is the part of a token that only its holder knows.
func secret(t lab.Token) *regexp.Regexp { return lab.Literal(strings.SplitN(t.Token, "_", 3)[2]) }

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
