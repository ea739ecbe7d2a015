//go:build real

package lab_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// plain is the gateway's first hop for machines that neither know its name nor trust its certificate.
const plain = "127.0.0.1:7480"

// minted is a bootstrap token, as muster bootstrap -o json says.
type minted struct {
	Token    string `json:"bootstrap_token"`
	URL      string `json:"bootstrap_url"`
	Script   string
	Command  string
	UserData string `json:"user_data"`
}

// secret is the part of the token that never stands in a URL.
func (m minted) secret() *regexp.Regexp {
	_, secret, _ := strings.Cut(m.Token, ".")
	return lab.Literal(secret)
}

// id is the part of the token that names it.
func (m minted) id() string { return m.Token[:strings.LastIndex(m.Token, "_")] }

// site is a gateway whose name no machine can resolve.
type site struct {
	*testing.T
	lab     *lab.Lab
	gateway *lab.Gateway
}

// newSite is one whose scripts install no container runtime: there is no archive to take it from.
func newSite(t *testing.T, flags ...string) *site {
	t.Helper()
	return openSite(t, lab.New(t), append([]string{"--bootstrap-install-container-runtime=false"}, flags...)...)
}

func openSite(t *testing.T, l *lab.Lab, flags ...string) *site {
	t.Helper()
	return &site{t, l, l.Gateway(append([]string{"--plain-listen", plain, "--bootstrap-resolve-address", "127.0.0.1"}, flags...)...)}
}

// blank is a machine that has not started, whose hosts file does not know the gateway.
func (s *site) blank() *lab.Box {
	s.Helper()
	box := s.lab.Box(lab.CloudInit())
	box.AddGPU()
	box.Write("/etc/hosts", "127.0.0.1 localhost\n", 0o644)
	return box
}

// machine is a blank one that runs. The test ends if it could reach the gateway by name already.
func (s *site) machine() *lab.Box {
	s.Helper()
	box := s.blank()
	box.Boot()
	if out, err := box.Try("root", "getent hosts "+lab.GatewayName); err == nil {
		s.Fatalf("the machine knows %s: %s", lab.GatewayName, out)
	}
	return box
}

// create makes a node, with its first token.
func (s *site) create(name string, flags ...string) (m minted) {
	s.Helper()
	s.gateway.Muster("node", "create", name)
	return s.mint(name, flags...)
}

// mint makes another token for a node, with more flags of bootstrap.
func (s *site) mint(name string, flags ...string) (m minted) {
	s.Helper()
	text := s.gateway.Muster(append([]string{"bootstrap", name, "-o", "json"}, flags...)...)
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Token == "" || m.Script == "" || m.Command == "" {
		s.Fatalf("bootstrap gave no token, script or command: %v", err)
	}
	return m
}

func (s *site) node(name string) lab.Node {
	s.Helper()
	for _, n := range s.gateway.Nodes() {
		if n.Name == name {
			return n
		}
	}
	s.Fatalf("the gateway has no node %s", name)
	return lab.Node{}
}

func (s *site) heard(name string, after time.Time) bool {
	s.Helper()
	n := s.node(name)
	return n.Status == "online" && n.State == "active" && n.Seen().After(after)
}

// joined expects the machine to be that node, heard after a time, with everything in its place and the token nowhere.
func (s *site) joined(box *lab.Box, was lab.Node, m minted, start time.Time) {
	s.Helper()
	if !s.heard(was.Name, start) {
		s.Fatalf("it ended well, but the node is not online: %+v", s.node(was.Name))
	}
	if now := s.node(was.Name); now.ID != was.ID || len(s.gateway.Muster("node", "ls", "--all", "-o", "json")) == 0 {
		s.Errorf("the node is %s, and was made as %s", now.ID, was.ID)
	}
	for script, want := range map[string]string{
		"stat -c %a /etc/muster /etc/muster/agent.env /etc/muster/ca-bundle.crt /var/lib/muster-agent | tr '\\n' ' '": "700 600 644 700",
		"grep -c ' # muster-bootstrap$' /etc/hosts":                                                     "1",
		"getent hosts " + lab.GatewayName + " | tr -s ' '":                                              "127.0.0.1 " + lab.GatewayName,
		"systemctl is-enabled " + unit + "; systemctl is-active " + unit:                                "enabled\nactive",
		"ls /etc/muster | tr '\\n' ' '":                                                                 "agent.env ca-bundle.crt",
		"ls -d /etc/*.muster /etc/muster/*.new /run/muster-credential.* 2>/dev/null":                    "",
		"ls -A /var/lib/muster-agent /etc /etc/systemd/system | grep -e '[.]bootstrap[.]' -e first-hop": "",
		"sed -n 's/^MUSTER_NODE_ID=//p' /etc/muster/agent.env":                                          was.ID,
	} {
		if got, _ := box.Try("root", script); strings.TrimSpace(got) != want {
			s.Errorf("%s\n gives %q, want %q", script, strings.TrimSpace(got), want)
		}
	}
	for _, found := range box.Holding(m.secret()) {
		if !strings.HasPrefix(found, "/var/lib/cloud/") { // where cloud-init keeps the user-data
			s.Errorf("the token's secret is still in %s", found)
		}
	}
}

// rebooted restarts the machine and expects the same node back.
func (s *site) rebooted(box *lab.Box, was lab.Node) {
	s.Helper()
	box.Reboot()
	start := time.Now()
	took := s.lab.Within(time.Minute, "the node is heard after a reboot", func() bool { return s.heard(was.Name, start) })
	s.Logf("heard again %s after the reboot", took.Round(time.Millisecond))
	if now := s.node(was.Name); now.ID != was.ID {
		s.Errorf("after a reboot the node is %s, and was %s", now.ID, was.ID)
	}
}

// TestBootstrap bootstraps machines by hand in all the ways that the documentation names.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var account struct{ Token string }
	if err := json.Unmarshal([]byte(s.gateway.Muster("account", "create", "ci", "--scope", "nodes:read,nodes:write,tokens:write",
		"-o", "json")), &account); err != nil {
		t.Fatal(err)
	}
	// The admin API answers over TLS alone, also to a machine that knows its root and address but not its name.
	const api = "curl -qfsS --cacert ca.pem --capath \"$(mktemp -d)\" --resolve " + lab.GatewayName + ":" + lab.Port +
		":127.0.0.1 -H @account -X POST '" + lab.URL + "/api/v1/admin/nodes/NODE/bootstrap-script?mode=manual"
	for i, c := range []struct{ name, user, command string }{
		{"the printed command", "root", ""},
		{"the script from the API", "alice", api + "&format=script' | sudo bash"},
		{"the script in the API's JSON", "alice", api + "' | jq -r .script | sudo bash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &site{t, s.lab, s.gateway}
			name := fmt.Sprintf("gpu-%d", i+1)
			m := s.create(name)
			was := s.node(name)
			box := s.machine()
			box.Sh("useradd --create-home --shell /bin/bash alice; echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice; curl -fsS http://" +
				plain + "/ca.pem -o /home/alice/ca.pem")
			box.Write("/home/alice/account", "Authorization: Bearer "+account.Token+"\n", 0o644)
			if c.command == "" {
				if c.command = m.Command; !contains(c.command, "http://"+plain, "sha256sum -c") {
					t.Fatalf("the printed command checks no digest: %s", c.command)
				}
			}
			watched := s.lab.Watch(m.secret())
			start := time.Now()
			out, err := box.Try(c.user, strings.ReplaceAll(c.command, "NODE", name))
			t.Logf("%s: %v\n%s", time.Since(start).Round(time.Millisecond), err, out)
			if seen := watched(); len(seen) > 0 {
				t.Errorf("the token's secret stood in these processes' arguments: %q", seen)
			}
			if err != nil || !contains(out, "[1/8]", "[8/8]", "[5/5]", lab.GPU, was.ID) {
				t.Fatal("it failed, or did not tell its steps")
			}
			s.joined(box, was, m, start)
			if i == 0 {
				s.rebooted(box, was)
			}
		})
	}
}

// cutOff runs /root/script on the machine and kills it, and all that it runs, as soon as it has said something. It gives what
// was said until then, and the script's exit status: that of a signal, 137 or, where it wrote to the lost reader first, 141.
func cutOff(box *lab.Box, said string) string {
	return box.Sh("rm -f told; mkfifo told; setsid bash script >told 2>&1 & sed '\\|^" + regexp.QuoteMeta(said) +
		"|q' <told; env kill -KILL -- -$! 2>/dev/null; wait $!; echo ended with $?; rm told")
}

func killed(out string) bool {
	return strings.HasSuffix(out, "ended with 137") || strings.HasSuffix(out, "ended with 141")
}

// TestBootstrapCutOff cuts the script off, in transit and while it runs, then runs it whole, and again.
func TestBootstrapCutOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m := s.create("gpu-1")
	was := s.node("gpu-1")
	box := s.machine()
	before := box.Tree()
	for part := range 8 { // the last part lacks only the end of the last line
		box.Write("/root/script", m.Script[:len(m.Script)-len("}\n")-part*len(m.Script)/8], 0o600)
		out, _ := box.Try("root", "bash script; dash script; rm script")
		if more := lab.Differences(before, box.Tree()); len(more) > 0 {
			t.Fatalf("a script without its last %d eighths did something: %q\n%s", part, more, out)
		}
	}
	if n := s.node("gpu-1"); n.State != "ready" {
		t.Errorf("the node is %s before anything was run", n.State)
	}
	box.Write("/root/script", m.Script, 0o600)
	// The first eight are the script's own steps; the others those of the agent that joins.
	for _, said := range []string{"[1/8]", "[2/8]", "[3/8]", "[4/8]", "[5/8]", "[6/8]", "[7/8]", "[8/8]", "[1/5]", "[2/5]", "[3/5]", "[4/5]"} {
		if out := cutOff(box, said); !contains(out, said) || !killed(out) {
			t.Errorf("not cut off at %s:\n%s", said, out)
		}
	}
	start := time.Now()
	t.Log(box.Sh("bash script"))
	again := box.Sh("systemctl show --property MainPID " + unit)
	out := box.Sh("bash script")
	if now := box.Sh("systemctl show --property MainPID " + unit); now != again || !contains(out, "nothing to do", "installed already") {
		t.Errorf("the same script again: the agent is %s, was %s\n%s", now, again, out)
	}
	if out, err := box.Try("root", m.Command); err == nil {
		t.Errorf("the script can be fetched with a used token:\n%s", out)
	}
	box.Write("/root/script", s.create("gpu-2").Script, 0o600)
	if out, err := box.Try("root", "bash script"); err == nil || !contains(out, "this machine is node "+was.ID+" already",
		"next: muster-agent leave") {
		t.Errorf("the script of another node: %v\n%s", err, out)
	}
	box.Sh("rm script")
	s.joined(box, was, m, start)
	s.rebooted(box, was)
	out = box.Sh("/var/lib/muster-agent/current/muster-agent leave")
	if more := lab.Differences(before, box.Tree()); len(more) > 0 {
		t.Errorf("after leaving there is a difference: %q\n%s", more, out)
	}
}
