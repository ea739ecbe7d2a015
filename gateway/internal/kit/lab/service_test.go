//go:build real

package lab_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// TestService runs the gateway as a service of its own machine, with one agent that must not notice its upgrades.
func TestService(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	host := l.Box(lab.Systemd())
	host.Install(lab.Binary(), "/root/muster")
	host.Boot()
	before := host.Tree()
	install := " service install --listen 127.0.0.1:" + lab.Port + " --public-url " + lab.URL + " --heartbeat-interval 5s"
	t.Log(host.Sh("/root/muster" + install))
	gateway := host.Gateway()
	unitOfGateway(t, host)
	if out := host.Sh("/root/muster" + install); !strings.Contains(out, "nothing to do") {
		t.Errorf("the same command again: %s", out)
	}

	box := l.Box(lab.Plain())
	box.Boot()
	out, err := box.Try("root", gateway.Token().Command)
	if err != nil {
		t.Fatalf("join: %v\n%s", err, out)
	}
	agent := box.Sh("pgrep --full 'muster-agent run'")

	steps, err := filepath.Glob(filepath.Join(lab.Tree(), "store/migrations/*.sql"))
	if err != nil || len(steps) == 0 {
		t.Fatal(steps, err)
	}
	later := fmt.Sprintf("store/migrations/%04d_later.sql", len(steps)+1)
	newer := map[string]string{later: "CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT;\n"}
	host.Install(l.BuildWith("9.9.9-lab", newer), "/root/muster")
	start := time.Now()
	t.Log(host.Sh("/root/muster" + install))
	l.Until("the agent reports to the new gateway", func() bool { return gateway.Heard(start) })
	if version := gateway.Muster("version"); !strings.Contains(version, "9.9.9-lab") {
		t.Errorf("after the upgrade the version is %s", version)
	}
	older(t, host, install)
	newer["gateway/broken.go"] = broken
	host.Install(l.BuildWith("9.9.10-lab", newer), "/root/muster")
	out, err = host.Try("root", "/root/muster"+install)
	t.Log(out)
	if version := gateway.Muster("version"); err == nil || !strings.Contains(version, "9.9.9-lab") ||
		!contains(out, "the gateway that ran before serves again", "it does not start") {
		t.Errorf("an upgrade to a program that does not start: %v, then %s", err, version)
	}
	start = time.Now()
	l.Until("the agent reports to the gateway that was put back", func() bool { return gateway.Heard(start) })
	start = time.Now()
	host.Sh("kill -9 $(systemctl show --property MainPID --value muster.service)")
	l.Until("the gateway comes back after kill -9", func() bool {
		_, err := gateway.Try("node", "ls")
		return err == nil && host.Sh("systemctl show --property ActiveState --value muster.service") == "active"
	})
	l.Until("the agent reports again", func() bool { return gateway.Heard(start) })
	start = time.Now()
	host.Reboot()
	l.Until("the agent reports after the gateway's machine has booted", func() bool { return gateway.Heard(start) })
	if now := box.Sh("pgrep --full 'muster-agent run'"); now != agent {
		t.Errorf("the agent is process %s now, and was %s", now, agent)
	}
	stopped(t, host)
	uninstalled(t, host, before)
}

// broken is a gateway that does not start.
const broken = `package main

import "os"

func init() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		panic("it does not start")
	}
}
`

// older gives the command with the program of before the last upgrade. It expects that the gateway which runs does not notice.
func older(t *testing.T, host *lab.Box, install string) {
	t.Helper()
	const running = "systemctl show --property MainPID --value muster.service && sha256sum /usr/local/bin/muster"
	before := host.Sh(running)
	host.Install(lab.Binary(), "/root/older")
	out, err := host.Try("root", "/root/older"+install)
	t.Log(out)
	if err == nil || !contains(out, "a newer muster has changed the database", "hint: ") {
		t.Errorf("an older muster: %v", err)
	}
	if now := host.Sh(running); now != before {
		t.Errorf("the gateway is %s, and was %s", now, before)
	}
	host.Sh("rm /root/older && cmp /usr/local/bin/muster /root/muster")
}

// stopped stops the service. It expects that the commands which the operator is told to use then work, and that the service can
// start after a restore under another key.
func stopped(t *testing.T, host *lab.Box) {
	t.Helper()
	host.Sh("muster backup /root/backup.db && cp /etc/muster/master.key /root/kept.key && systemctl stop muster")
	if out, err := host.Try("root", "muster node ls"); err == nil || !strings.Contains(out, "hint: systemctl start muster") {
		t.Errorf("a stopped service: %v\n%s", err, out)
	}
	if out, err := host.Try("root", "setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/tmp muster node ls"); err == nil ||
		!strings.Contains(out, "sudo muster node ls") {
		t.Errorf("a stopped service, to a user: %v\n%s", err, out)
	}
	host.Sh("rm /var/lib/muster/muster.db* && head -c 32 /dev/urandom | base64 >/etc/muster/master.key && muster ca init")
	out := host.Sh("muster restore /root/backup.db --force --master-key-file /root/kept.key")
	if !contains(out, "The master key is in /etc/muster/master.key", "/etc/muster/master.key.before-restore-") {
		t.Errorf("restore says: %s", out)
	}
	host.Sh("cmp /root/kept.key /etc/muster/master.key && systemctl start muster && muster node ls && rm /root/kept.key /root/backup.db")
}

func unitOfGateway(t *testing.T, host *lab.Box) {
	t.Helper()
	for property, want := range map[string]string{"ActiveState": "active", "Type": "notify", "Restart": "always", "User": "muster",
		"UnitFileState": "enabled", "NoNewPrivileges": "yes"} {
		if got := host.Sh("systemctl show --property " + property + " --value muster.service"); got != want {
			t.Errorf("%s=%s, want %s", property, got, want)
		}
	}
	if got := host.Sh("stat -c '%U %a' /var/lib/muster /etc/muster/master.key | tr '\\n' ' '"); got != "muster 700 root 600" {
		t.Errorf("owners and modes of the data and the master key: %s", got)
	}
	if got := host.Sh("ls /var/lib/muster"); strings.Contains(got, "master.key") {
		t.Errorf("the master key lies beside what it seals: %s", got)
	}
	if got := host.Sh("journalctl --no-pager | grep -c 'msa_[0-9A-Za-z]*_' || true"); got != "0" {
		t.Errorf("the journal holds an API token")
	}
}

// uninstalled expects that the service goes, and that the data and the key that opens it stay.
func uninstalled(t *testing.T, host *lab.Box, before map[string]string) {
	t.Helper()
	out := host.Sh("/root/muster service uninstall")
	t.Log(out)
	if !contains(out, "/var/lib/muster", "/etc/muster/master.key") {
		t.Errorf("uninstall does not say where the data and the key are")
	}
	if got := host.Sh("ls /var/lib/muster/muster.db /etc/muster/master.key"); got == "" {
		t.Error("uninstall removed the data")
	}
	for _, line := range lab.Differences(before, host.Tree()) {
		// useradd changes these files. They stay changed: the user stays too, because it owns the data.
		if !strings.HasPrefix(line, "/var/lib/muster") && !strings.HasPrefix(line, "/etc/muster") && !contains(line, "/etc/", "passwd") &&
			!contains(line, "/etc/", "shadow") && !contains(line, "/etc/", "group") && !strings.HasPrefix(line, "/root/muster:") {
			t.Errorf("uninstall left %s", line)
		}
	}
}
