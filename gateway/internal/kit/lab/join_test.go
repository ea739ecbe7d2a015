//go:build real

package lab_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// TestCopied joins with an agent that somebody carried to the machine, which has neither curl nor wget.
func TestCopied(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Plain(), "root", func(b *lab.Box) {
		b.Sh("rm /usr/bin/curl /usr/bin/wget")
		b.Install(filepath.Join(lab.Tree(), "bin", "muster-agent"), "/root/muster-agent")
	})
	join := func(more string) (string, error) { return s.box.Try("root", "./muster-agent join --gateway "+more) }
	start := time.Now()
	out, err := join(lab.URL + " --token " + s.token.Token)
	if err != nil || !s.gateway.Heard(start) {
		t.Fatalf("join: %v\n%s", err, out)
	}
	s.tokenNowhere()
	if out, err = join(lab.URL); err != nil || !strings.Contains(out, "nothing to do") {
		t.Errorf("join again: %v\n%s", err, out)
	}
	const other = "https://other.lab:7443"
	if out, err = join(other); err == nil || !contains(out, lab.URL, other, "--force") {
		t.Errorf("join with another gateway: %v\n%s", err, out)
	}
	s.leave()
	s.work.Unharmed()
}

// TestWrongly joins in ways that cannot work: each ends by itself, with the next step, and leaves nothing behind.
func TestWrongly(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Plain(), "root", func(*lab.Box) {})
	typo := s.token.Token[:len(s.token.Token)-1] + "-"
	for _, c := range []struct{ name, command, want string }{
		{"a mistyped token", strings.Replace(s.token.Command, s.token.Token, typo, 1), "token"},
		{"no token", strings.Replace(s.token.Command, "MUSTER_TOKEN="+s.token.Token, "", 1), "MUSTER_TOKEN"},
		{"another gateway's key", otherKey(s.token.Command), "pinned"},
	} {
		out, err := s.box.Try("root", c.command)
		t.Logf("-- %s: %v\n%s", c.name, err, out)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit status 0, or no word of %s", c.name, c.want)
		}
		if more := lab.Differences(s.before, s.box.Tree()); len(more) > 0 {
			t.Errorf("%s left on the machine:\n%s", c.name, strings.Join(more, "\n"))
		}
	}
	if nodes := s.gateway.Nodes(); len(nodes) > 0 {
		t.Errorf("nodes: %+v", nodes)
	}
}

// otherKey is the command with another pinned key than the gateway's.
func otherKey(command string) string {
	before, after, _ := strings.Cut(command, "sha256//")
	_, after, _ = strings.Cut(after, "\"")
	return before + "sha256//" + strings.Repeat("A", 43) + "=\"" + after
}

// TestRecycled runs one onstart command again and again on a rented machine: after a restart it changes nothing, and after
// the disk was lost the machine is the same node again.
func TestRecycled(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	gateway := l.Gateway()
	token := gateway.Token("--bind-instance")
	onstart := "export MUSTER_PROVIDER=vast_ai MUSTER_INSTANCE_ID=39467543; " + token.Command
	run := func(box *lab.Box) string {
		t.Helper()
		start := time.Now()
		out, err := box.Try("root", onstart)
		if err != nil {
			t.Fatalf("onstart: %v\n%s", err, out)
		}
		l.Until("the node is heard", func() bool { return gateway.Heard(start) })
		return out
	}
	first := l.Box(lab.Plain())
	first.Boot()
	run(first)
	node := gateway.Node()
	first.Reboot()
	if out := run(first); strings.Contains(out, "enrolled as") {
		t.Errorf("after a restart the machine enrolled again:\n%s", out)
	}
	first.PowerCut()
	second := l.Box(lab.Plain())
	second.Boot()
	out := run(second)
	t.Log(out)
	if !contains(out, "is not replaced", "waiting until that node counts as silent", "enrolled as vast-ai-39467543") {
		t.Error("the machine did not wait for its former node")
	}
	if now := gateway.Node(); now.ID != node.ID || now.Name != "vast-ai-39467543" {
		t.Errorf("after the loss of its disk the machine is node %s (%s), and was %s (%s)", now.ID, now.Name, node.ID, node.Name)
	}
	found, _ := gateway.Try("token", "ls", "--all")
	t.Log(found)
}
