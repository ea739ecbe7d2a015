//go:build real

package lab_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/kit/lab"
)

// key makes a key pair on the box, and gives a param with its public half.
func (s *scene) key(name string) string {
	s.Helper()
	s.box.Sh("ssh-keygen -q -t ed25519 -N '' -C " + name + "@lab -f /root/" + name)
	return "ssh_public_keys=" + s.box.Sh("cat /root/"+name+".pub")
}

// ssh logs in with a key, and runs a script there.
func (s *scene) ssh(key, user, script string) (string, error) {
	const quiet = " -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
	return s.box.Try("root", "ssh -i /root/"+key+quiet+user+"@127.0.0.1 sh -s <<'END'\n"+script+"\nEND")
}

// TestAccounts: a person gets in with a key, has the rights that the task gave, and is gone afterwards with all that ran. What the
// person has planted leads the agent nowhere.
func TestAccounts(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Accounts(), "root", func(b *lab.Box) {
		b.Sh("useradd --create-home bob; groupadd gpu; mkdir -p /srv/keep; echo precious >/srv/keep/data; echo precious >/root/own")
		b.Sh("systemctl start ssh.service")
	})
	one := s.key("one")
	two := s.key("two")
	s.install()

	s.step("an account with a key and sudo")
	made := s.done("provision_user", "username=ada", one, "groups=gpu", "sudo=true")
	if made.value("changed") != "true" || made.value("home") != `"/home/ada"` {
		t.Errorf("%+v", made)
	}
	out, err := s.ssh("one", "ada", "id; sudo -n id -u 2>/dev/null; stat -c '%a %U' .ssh .ssh/authorized_keys; echo $SHELL")
	if err != nil || !contains(out, "(ada)", "(gpu)", "\n0\n700 ada\n600 ada\n/bin/bash") {
		t.Errorf("%v\n%s", err, out)
	}
	if out := s.box.Sh("sudo -l -U ada; ls /etc/sudoers.d"); !contains(out, "NOPASSWD: ALL", "muster-ada") {
		t.Errorf("%s", out)
	}
	if again := s.done("provision_user", "username=ada", one, "groups=gpu", "sudo=true"); again.value("changed") != "false" {
		t.Errorf("%+v", again)
	}

	s.step("another key, no group, no sudo")
	s.done("provision_user", "username=ada", two)
	if out, err := s.ssh("one", "ada", "id"); err == nil {
		t.Errorf("the old key lets in: %s", out)
	}
	out, err = s.ssh("two", "ada", "id; sudo -n true && echo root")
	if contains(out, "(gpu)") || contains(out, "root") || !contains(out, "(ada)") {
		t.Errorf("%v %s", err, out)
	}

	s.step("sshd that does not use PAM")
	s.box.Sh("echo 'UsePAM no' >/etc/ssh/sshd_config.d/lab.conf; systemctl restart ssh.service")
	if out, err := s.ssh("two", "ada", "id"); err != nil {
		t.Errorf("the account counts as locked: %s", out)
	}
	s.box.Sh("rm /etc/ssh/sshd_config.d/lab.conf; systemctl restart ssh.service")

	s.step("what the user has planted")
	before := s.box.Sh("sha256sum /etc/shadow /root/own; ls -la /root /srv/keep")
	s.box.Sh("cd /home/ada; rm -r .ssh; runuser -u ada -- ln -s /root .ssh")
	s.refused([]string{".ssh", "not a folder that can be used"}, "provision_user", "username=ada", one)
	s.box.Sh("cd /home/ada; rm .ssh; runuser -u ada -- mkdir .ssh; runuser -u ada -- ln -s /root/own .ssh/authorized_keys")
	s.box.Sh("cd /home/ada; runuser -u ada -- ln -s /etc/shadow .ssh/.muster.new")
	s.done("provision_user", "username=ada", one)
	if after := s.box.Sh("sha256sum /etc/shadow /root/own; ls -la /root /srv/keep"); after != before {
		t.Errorf("%s\nwas\n%s", after, before)
	}
	if out, err := s.ssh("one", "ada", "stat -c '%F %a %U' .ssh/authorized_keys"); err != nil || !contains(out, "regular file 600 ada") {
		t.Errorf("%v %s", err, out)
	}

	s.step("accounts of others")
	people := s.box.Sh("cat /etc/passwd /etc/shadow /etc/group; ls /home")
	s.refused([]string{"an account bob that muster did not make"}, "provision_user", "username=bob", one)
	s.refused([]string{"an account bob that muster did not make"}, "deprovision_user", "username=bob", "remove_home=true")
	s.refused([]string{"did not make"}, "deprovision_user", "username=root")
	s.refused([]string{"no group wheels", "groupadd wheels"}, "provision_user", "username=eve", "groups=wheels")
	if now := s.box.Sh("cat /etc/passwd /etc/shadow /etc/group; ls /home"); now != people {
		t.Errorf("%s\nwas\n%s", now, people)
	}

	s.step("the end")
	s.done("provision_user", "username=ada", one, "sudo=true")
	const stays = `nohup setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' >/dev/null 2>&1 &`
	if _, err := s.ssh("one", "ada", "ln -s /srv/keep keep; ln -s /srv/keep/data data; "+stays); err != nil {
		t.Error(err)
	}
	s.lab.Until("it runs", func() bool { return s.box.Sh("pgrep -u ada -f trap || true") != "" })
	gone := s.done("deprovision_user", "all=true", "remove_home=true")
	if gone.value("removed") != `["ada"]` || !contains(gone.Output.Head, "processes of ada") {
		t.Errorf("%+v", gone)
	}
	left := s.box.Sh("getent passwd ada; ls /home /etc/sudoers.d; pgrep -f 'trap' || true; cat /srv/keep/data")
	if !contains(left, "precious") || contains(left, "ada") {
		t.Errorf("%s", left)
	}
	if again := s.done("deprovision_user", "all=true", "remove_home=true"); again.value("changed") != "false" {
		t.Errorf("%+v", again)
	}
	s.work.Unharmed()
}

// TestWithoutSudo: a machine that lacks a tool says which package has it, and nothing is installed.
func TestWithoutSudo(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Systemd(), "root", func(*lab.Box) {})
	one := s.key("one")
	s.install()
	packages := s.box.Sh("dpkg -l; cat /etc/passwd")
	s.refused([]string{"no visudo", "installs nothing", "sudo"}, "provision_user", "username=ada", one, "sudo=true")
	if now := s.box.Sh("dpkg -l; cat /etc/passwd"); now != packages {
		t.Errorf("%s", now)
	}
}

// TestDiagnosis: an archive from a real machine has what a support person asks for, and no secret.
func TestDiagnosis(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Systemd(), "root", func(*lab.Box) {})
	s.install()
	before := s.box.Tree()
	if did := s.done("diag.collect"); !contains(did.Output.Head, "agent/status.json: ", "gpu/lspci.txt: not on this machine") {
		t.Errorf("%+v", did)
	}
	if more := lab.Differences(before, s.box.Tree()); len(more) > 0 {
		t.Logf("changed: %s", strings.Join(more, "\n"))
	}
	var list struct{ Tasks []struct{ ID string } }
	text := s.gateway.Muster("task", "ls", "--type", "diag.collect", "-o", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Tasks) != 1 {
		t.Fatalf("task ls: %v in %s", err, text)
	}
	file := filepath.Join(t.TempDir(), "diag.tar.gz")
	s.gateway.Muster("task", "download", list.Tasks[0].ID, file)
	files := unpacked(t, file)
	key := s.box.Sh(`sed -n 's/.*"key": "-----BEGIN PRIVATE KEY-----\\n\([^\\]*\).*/\1/p' /var/lib/muster-agent/identity.json | head -n 1`)
	if len(key) != 64 {
		t.Errorf("the key's first line is %q", key)
	}
	hidden := secret(s.token)
	for name, text := range files {
		if hidden.MatchString(text) || strings.Contains(text, key) {
			t.Errorf("%s holds a secret", name)
		}
	}
	for name, want := range map[string]string{
		"agent/unit.txt": "Active: active (running)", "agent/agent.log": `"level":"info"`, "agent/identity.json": `"not_after"`,
		"agent/settings.env": "MUSTER_GATEWAY=", "system/os-release.txt": "ID=debian", "system/uname.txt": "Linux", "network/routes.txt": "",
		"gpu/last-look.json": lab.GPU, "manifest.json": `"file": "agent/tasks.txt"`, "agent/tasks.txt": " started\n",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, files[name])
		}
	}
	s.work.Unharmed()
}

// unpacked reads an archive with the machine's own tar, and with Go's.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	if out, err := exec.Command("tar", "tzf", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}
