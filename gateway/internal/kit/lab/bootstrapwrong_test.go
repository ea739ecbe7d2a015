//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// TestBootstrapWrongly runs the script if it cannot work. Each run ends by itself with what is wrong and what to do, enrols
// nothing, and leaves the machine so that the next run can go on.
func TestBootstrapWrongly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	expiring := s.create("gpu-late", "--ttl", "1m")
	minting := time.Now()
	retired := s.create("gpu-gone")
	m := s.create("gpu-1")
	s.gateway.Muster("node", "retire", "gpu-gone", "--yes")
	was := s.node("gpu-1")
	box := s.machine()
	const (
		hosts = "mount --bind /etc/hosts /etc/hosts && mount -o remount,bind,ro /etc/hosts"
		conf  = "/etc/muster"
		base  = "/var/lib/muster-agent"
	)
	small := func(dir, size string) string {
		return "mkdir -p " + dir + " && mount -t tmpfs -o size=" + size + " tmpfs " + dir
	}
	wrong := func(name, script, prepare, undo string, want ...string) {
		t.Helper()
		box.Write("/root/script", script, 0o600)
		box.Sh(prepare)
		out, err := box.Try("root", "bash script")
		t.Logf("-- %s: %v\n%s", name, err, out)
		if err == nil || !contains(out, append(want, "next: ")...) {
			t.Errorf("%s: it ended well, or did not say what is wrong", name)
		}
		if out, err := box.Try("root", "ls -d /etc/systemd/system/muster* "+base+"/current"); err == nil {
			t.Errorf("%s: half-installed: %s", name, out)
		}
		box.Sh(undo)
	}
	wrong("no room for the settings", m.Script, small(conf, "4k"), "umount "+conf, "/etc/muster/", " 0 KiB free", "room")
	wrong("no room for the agent", m.Script, small(base, "3m"), "umount "+base, "the agent cannot be fetched", "room")
	wrong("hosts file is read-only", m.Script, "cp /etc/hosts /root/hosts; sed -i /muster-bootstrap/d /etc/hosts; "+hosts, "umount /etc/hosts",
		"read-only", "add this line to /etc/hosts: 127.0.0.1 "+lab.GatewayName)
	wrong("retired node", retired.Script, "true", "true", "retired")
	if out, err := box.Try("root", retired.Command); err == nil || !contains(out, "403") && !contains(out, "410") {
		t.Errorf("the script of a retired node can be fetched: %v\n%s", err, out)
	}
	for name, state := range map[string]string{"gpu-1": "ready", "gpu-late": "ready", "gpu-gone": "retired"} {
		if n := s.node(name); n.State != state || n.LastSeen != nil {
			t.Errorf("the node %s: %+v, want %s", name, n, state)
		}
	}
	wrong("no room to install the agent", m.Script, small(base, "10m"), "mount -o remount,size=128m "+base, "MiB are free for "+base,
		"the token is not spent")
	s.hostsMounted(box, was, m)
	s.expired(s.machine(), expiring, minting)
}

// hostsMounted runs the script where /etc/hosts is a mount. The first mount cannot be written, but has the name already. The second can
// be written but not replaced, as in containers.
func (s *site) hostsMounted(box *lab.Box, was lab.Node, m minted) {
	s.Helper()
	box.Sh("sed -i /muster-bootstrap/d /etc/hosts; echo 127.0.0.1 " + lab.GatewayName +
		" >>/etc/hosts; mount --bind /etc/hosts /etc/hosts && mount -o remount,bind,ro /etc/hosts")
	box.Write("/root/script", m.Script, 0o600)
	start := time.Now()
	if out := box.Sh("bash script"); !contains(out, "not written, going on without", "done: ") {
		s.Errorf("with a read-only hosts file that knows the gateway:\n%s", out)
	}
	box.Sh("mount -o remount,bind,rw /etc/hosts; sed '/" + lab.GatewayName + "/d' /etc/hosts >/root/hosts; cat /root/hosts >/etc/hosts")
	if out := box.Sh("bash script"); !contains(out, "nothing to do") {
		s.Errorf("again, with a hosts file that can be written but not replaced:\n%s", out)
	}
	box.Sh("umount /etc/hosts; rm script")
	s.joined(box, was, m, start)
}

// expired waits until a token is no longer valid. Then its script cannot be fetched, and one that was fetched before cannot enrol.
func (s *site) expired(box *lab.Box, m minted, minting time.Time) {
	s.Helper()
	s.lab.Within(2*time.Minute, "the token expires", func() bool { return time.Since(minting) > time.Minute })
	if out, err := box.Try("root", m.Command); err == nil {
		s.Errorf("the script of an expired token can be fetched:\n%s", out)
	}
	box.Write("/root/script", m.Script, 0o600)
	out, err := box.Try("root", "bash script")
	s.Logf("expired: %v\n%s", err, out)
	if err == nil || !contains(out, "expired", "muster bootstrap gpu-late") {
		s.Error("an expired token enrolled, or nothing told of it")
	}
	if got := box.Sh("systemctl list-unit-files 'muster*' --no-legend || true"); got != "" ||
		strings.Contains(s.node("gpu-late").State, "active") {
		s.Errorf("half-installed: %s; %+v", got, s.node("gpu-late"))
	}
}
