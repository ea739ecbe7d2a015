//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// TestPush joins machines over a real sshd, from an operator's machine with ssh's own keys and known hosts.
func TestPush(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, user, kind string
		root             lab.Root
		prepare          string
		unreachable      bool // also pushes with a gateway that does not answer, which takes its time
	}{
		{"root with systemd", "root", "systemd", lab.Systemd(), "true", false},
		{"root without init, curl and wget", "root", "supervisor", lab.Plain(),
			"mkdir -p /run/sshd; /usr/sbin/sshd; rm /usr/bin/curl /usr/bin/wget /usr/lib/openssh/sftp-server", true},
		{"user without init", "alice", "supervisor", lab.Plain(),
			"mkdir -p /run/sshd; /usr/sbin/sshd; useradd --create-home --shell /bin/sh alice", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPush(t, c.root, c.user, c.prepare)
			p.refusedByHostKey()
			p.knowHost()
			if c.unreachable {
				p.failed()
			}
			p.pushed(c.kind)
		})
	}
}

// pushing is an operator's machine and the one that is to join.
type pushing struct {
	*testing.T
	lab           *lab.Lab
	gateway       *lab.Gateway
	operator, box *lab.Box
	user          string
	before        map[string]string
}

func newPush(t *testing.T, root lab.Root, user, prepare string) *pushing {
	t.Helper()
	p := &pushing{T: t, lab: lab.New(t), user: user}
	p.gateway = p.lab.Gateway()
	p.operator = p.lab.Box(lab.Plain())
	p.box = p.lab.Box(root)
	p.gateway.Mount(p.operator)
	p.operator.Boot()
	p.box.AddGPU()
	p.box.Boot()
	p.box.Sh(prepare)
	p.operator.Sh("mkdir -p -m 700 .ssh; ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519")
	out, err := p.box.Try(user, "mkdir -p -m 700 .ssh; umask 077; echo '"+p.operator.Sh("cat .ssh/id_ed25519.pub")+"' >.ssh/authorized_keys")
	if err != nil {
		t.Fatalf("authorized_keys: %v\n%s", err, out)
	}
	p.lab.Until("sshd listens", func() bool {
		_, err := p.operator.Try("root", "ssh-keyscan -t ed25519 localhost | grep -q ssh-ed25519")
		return err == nil
	})
	p.before = p.box.Tree()
	return p
}

func (p *pushing) push(more string) (string, error) {
	return p.operator.Try("root", "muster push "+p.user+"@localhost --tenant platform --label rack=7 "+more)
}

// knowHost is what an operator does once, by looking at the machine's key.
func (p *pushing) knowHost() {
	p.Helper()
	p.operator.Sh("echo 'localhost " + p.box.Sh("cat /etc/ssh/ssh_host_ed25519_key.pub") + "' >>.ssh/known_hosts")
}

// refusedByHostKey pushes to a host whose key is not known: ssh's checking stays on.
func (p *pushing) refusedByHostKey() {
	p.Helper()
	out, err := p.push("")
	if err == nil || !strings.Contains(out, "Host key verification failed") {
		p.Errorf("a push to a host with an unknown key: %v\n%s", err, out)
	}
	p.untouched()
}

// failed pushes an agent that cannot reach its gateway.
func (p *pushing) failed() {
	p.Helper()
	out, err := p.push("--gateway https://" + lab.GatewayName + ":9")
	if err == nil || !contains(out, "[1/5]", lab.GatewayName+":9") {
		p.Errorf("a push that cannot reach the gateway: %v\n%s", err, out)
	}
	p.Log(out)
	p.untouched()
}

// untouched expects that a push that failed left neither a file nor a token that is good for anything.
func (p *pushing) untouched() {
	p.Helper()
	if more := lab.Differences(p.before, p.box.Tree()); len(more) > 0 {
		p.Errorf("a push that failed left on the machine:\n%s", strings.Join(more, "\n"))
	}
	if list := p.gateway.Muster("token", "ls"); strings.Contains(list, "mse_") {
		p.Errorf("a push that failed left a token:\n%s", list)
	}
	if nodes := p.gateway.Nodes(); len(nodes) > 0 {
		p.Errorf("a push that failed left nodes: %+v", nodes)
	}
}

func (p *pushing) pushed(kind string) {
	p.Helper()
	watched := p.lab.Watch(lab.AnyToken)
	start := time.Now()
	out, err := p.push("--name pushed")
	p.Logf("from the command to online: %s\n%s", time.Since(start).Round(time.Millisecond), out)
	if seen := watched(); len(seen) > 0 {
		p.Errorf("a token stood in these processes' arguments: %q", seen)
	}
	if err != nil || !p.gateway.Heard(start) {
		p.Fatalf("push: %v, and the nodes are %+v", err, p.gateway.Nodes())
	}
	if !contains(out, "[1/5]", "[5/5]", kind) {
		p.Errorf("push did not show what the machine said")
	}
	if name := p.gateway.Node().Name; name != "pushed" {
		p.Errorf("the node is %q", name)
	}
	if found := p.box.Holding(lab.AnyToken); len(found) > 0 {
		p.Errorf("a token is still in %q", found)
	}
	if left := p.box.Sh("ls -d /tmp/*muster* /root/.muster* /home/*/.muster* 2>/dev/null || true"); left != "" {
		p.Errorf("push left %s", left)
	}
	at := p.gateway.Node().Seen()
	p.lab.Until("the node reports after the login is over", func() bool { return p.gateway.Heard(at.Add(time.Second)) })
}
