package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes a file of the machine.
func (b *box) put(path, text string, mode os.FileMode) {
	b.t.Helper()
	b.mkdir(filepath.Dir(path))
	if err := os.WriteFile(filepath.Join(b.root, path), []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

// TestLeaveAfterBootstrap: leave removes what a bootstrap script put on the machine, and names what stays.
func TestLeaveAfterBootstrap(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.put("etc/real/hosts", "127.0.0.1 localhost\n127.0.1.1 me # muster-bootstrap-like", 0o644)
	b.put("etc/cloud/templates/host.mariner.tmpl", "## template:jinja\n127.0.1.1 me\n", 0o600)
	if err := os.Symlink("real/hosts", filepath.Join(b.root, "etc/hosts")); err != nil {
		t.Fatal(err)
	}
	b.mkdir("etc/systemd/system")
	b.mkdir("etc/docker/certs.d/r.example:5000")
	b.put("etc/docker/certs.d/own.example/ca.crt", "another", 0o644)
	before := b.tree()
	const line = "192.0.2.1 gw.example # muster-bootstrap\n"
	b.put("etc/real/hosts", line+"127.0.0.1 localhost\n127.0.1.1 me # muster-bootstrap-like", 0o644)
	b.put("etc/cloud/templates/host.mariner.tmpl", "## template:jinja\n"+strings.TrimSpace(line)+" \r\n127.0.1.1 me\n", 0o600)
	for _, path := range []string{"etc/muster/ca-bundle.crt", "etc/muster/bootstrap-token", "etc/muster/first-hop.sh",
		"etc/muster/.bootstrap.1.abc", "run/muster-bootstrap.sh",
		"run/muster-bootstrap.status", "run/muster-bootstrap.lock", "run/muster-first-hop.abc/why",
		"etc/systemd/system/muster-first-hop.service"} {
		b.put(path, "bundle", 0o600)
	}
	b.put("etc/docker/certs.d/r.example:5000/ca.crt", "bundle", 0o644)
	b.joined()
	b.put("base/.runtime-begun", "", 0o600)
	if os.Geteuid() == 0 { // what an ordinary user owns is not believed
		b.put("base/accounts.json", `{"version":1,"accounts":[{"name":"ada","uid":1001,"home":"/home/ada","mark":"m","phase":"present"},
			{"name":"bob","uid":1002,"home":"/home/bob","mark":"m","phase":"kept"}]}`, 0o600)
	}
	b.put("base/.bootstrap.1.abc/muster-agent", "", 0o600)
	b.put("base/.bootstrap-stays", "runtime docker.io docker-cli\nlogin docker r.example:5000\nlogin docker r.example:5000\nodd\n", 0o600)
	code, out, errs := b.call("leave", "--state", b.base)
	for _, want := range []string{
		"stays: the container runtime that the bootstrap installed (docker.io docker-cli): " +
			"where nothing needs it, apt-get purge docker.io docker-cli\n",
		"stays: the login of docker at the registry r.example:5000: where nothing needs it, docker logout r.example:5000\n",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
	named := strings.Contains(out, "stays: the account ada, which a task has made (userdel ada")
	if named != (os.Geteuid() == 0) || strings.Contains(out, "bob") {
		t.Errorf("not the account that stays:\n%s", out)
	}
	trust := filepath.Join(b.root, "etc/docker/certs.d/r.example:5000/ca.crt")
	if code != 0 || !strings.Contains(out, "stays: "+trust+" (trust in a registry") ||
		!strings.HasSuffix(out, "left: apart from what stays, this machine is as it was before\n") ||
		!strings.Contains(out, "removed the bootstrap's line in ") || strings.Contains(out, "own.example") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if !strings.Contains(strings.Join(b.calls, "\n"), "systemctl disable --no-reload --now muster-first-hop.service") {
		t.Errorf("systemctl: %q", b.calls)
	}
	os.Remove(trust)
	if after := b.tree(); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// TestLeaveBeforeTheAgent: leave also removes a first hop that has not installed an agent yet.
func TestLeaveBeforeTheAgent(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"etc/muster/first-hop.sh", "etc/systemd/system/muster-first-hop.service",
		"etc/systemd/system/.muster-first-hop.service", "etc/hosts"} {
		b := newBox(t)
		b.mkdir("etc/systemd/system")
		b.put("etc/hosts", "127.0.0.1 localhost\n", 0o644)
		before := b.tree()
		b.put(path, "127.0.0.1 localhost\n192.0.2.1 gw.example # muster-bootstrap\n", 0o644)
		code, out, errs := b.call("leave", "--state", b.base)
		if code != 0 || !strings.Contains(out, filepath.Base(path)) || !strings.HasSuffix(out, "left: this machine is as it was before\n") {
			t.Errorf("%s: exit %d\n%s%s", path, code, out, errs)
		}
		if after := b.tree(); after != before {
			t.Errorf("%s: before\n%safter\n%s", path, before, after)
		}
		if code, out, _ := b.call("leave", "--state", b.base); code != 0 || !strings.Contains(out, "nothing to do") {
			t.Errorf("%s, again: exit %d\n%s", path, code, out)
		}
	}
}

// TestLeaveHostsFileThatCannotBeWritten: leave names the line that it cannot remove.
func TestLeaveHostsFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.joined()
	b.mkdir("etc/hosts/in-the-way") // not a file at all
	code, out, errs := b.call("leave", "--state", b.base)
	if code != 0 || !strings.Contains(out, "stays: lines of "+filepath.Join(b.root, "etc/hosts")) || !strings.Contains(out, "by hand") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// TestJoinDropsTheBootstrapToken: after the enrolment, join removes the token's file where cloud-init put it. It does not remove the
// file of a person.
func TestJoinDropsTheBootstrapToken(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	own := filepath.Join(b.root, "own")
	known := filepath.Join(b.root, "etc/muster/bootstrap-token")
	b.put("etc/muster/bootstrap-token", "\ufeff"+b.token+"\r\n", 0o666)
	os.Chmod(known, 0o666) // whatever the umask
	code, out, errs := b.join("--token-file", known)
	if code != 0 || !strings.Contains(errs, "warning: other users of this machine can read or change "+known+" (mode 0666): chmod 600") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(known); err == nil {
		t.Error("the token is left")
	}
	b.put("own", b.token, 0o600)
	b.put("etc/muster/bootstrap-token", b.token, 0o600)
	for _, path := range []string{own, known} { // nothing to do
		if code, out, errs := b.join("--token-file", path); code != 0 || strings.Contains(errs, "warning") {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("somebody's own file: %v", err)
	}
	if _, err := os.Stat(known); err == nil {
		t.Error("the token is left after another run")
	}
}

func TestJoinWideToken(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("token", "\xff\xfem\x00s\x00e\x00", 0o600)
	if code, _, errs := b.join("--token-file", filepath.Join(b.root, "token")); code != 1 || !strings.Contains(errs, "UTF-16") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
