//go:build real

package lab_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

const (
	firstBoot = 4 * time.Minute // how long cloud-init may take
	seedFile  = "/var/lib/cloud/seed/nocloud/user-data"
)

// TestCloudInit boots a machine for the first time with nothing but user-data, which cloud-init's own datasource finds.
func TestCloudInit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m := s.create("gpu-7", "--mode", "cloud-init")
	if len(m.UserData) >= 16<<10 {
		t.Errorf("user-data of %d bytes, more than clouds take", len(m.UserData))
	}
	was := s.node("gpu-7")
	box := s.blank()
	box.Seed(m.UserData)
	watched := s.lab.Watch(m.secret())
	start := time.Now()
	status := box.FirstBoot(firstBoot)
	t.Logf("first boot: %s\n%s", time.Since(start).Round(time.Millisecond), status)
	if seen := watched(); len(seen) > 0 {
		t.Errorf("the token's secret stood in these processes' arguments: %q", seen)
	}
	log := box.Sh("cat /var/log/cloud-init-output.log")
	t.Log(log)
	if !contains(status, "status: done", "DataSourceNoCloud") || contains(log, "Invalid cloud-config") {
		t.Error("cloud-init found fault with the user-data")
	}
	if got := box.Sh("cat /run/muster-bootstrap.status"); got != "0 joined" {
		t.Errorf("the first hop's status: %s", got)
	}
	if got := box.Console(); !contains(got, "muster bootstrap of gpu-7: joined") {
		t.Errorf("the console: %s", got)
	}
	schema(t, box)
	s.joined(box, was, m, start)
	s.rebooted(box, was)
	if out, err := box.Try("root", "cat /run/muster-bootstrap.status"); err == nil {
		t.Errorf("the first hop ran again after a reboot: %s", out)
	}
	if hosts := box.Sh("cat /etc/hosts"); strings.Count(hosts, "# muster-bootstrap") != 1 ||
		!contains(hosts, "manage_etc_hosts", "127.0.1.1 box1") {
		t.Errorf("cloud-init should have written the hosts file anew, with the gateway's name:\n%s", hosts)
	}
}

// schema has cloud-init itself judge the user-data, and proves that it can find fault.
func schema(t *testing.T, box *lab.Box) {
	t.Helper()
	if out, err := box.Try("root", "cloud-init schema --config-file "+seedFile); err != nil || !contains(out, "Valid cloud-config") {
		t.Errorf("cloud-init schema: %v\n%s", err, out)
	}
	out, err := box.Try("root", "sed \"s/permissions: '0600'/permissions: 600/\" "+seedFile+" >/run/wrong; "+
		"cloud-init schema --config-file /run/wrong; code=$?; rm /run/wrong; exit $code")
	if err == nil {
		t.Errorf("cloud-init schema took permissions that are a number:\n%s", out)
	}
}

// TestCloudInitPowerCut cuts a machine's power while its first hop waits for the gateway. It joins at its next boot, although
// cloud-init does nothing at that one.
func TestCloudInitPowerCut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m := s.create("gpu-7", "--mode", "cloud-init")
	box := s.blank()
	s.gateway.Stop()
	box.Seed(m.UserData)
	box.Begin()
	s.lab.Within(firstBoot, "the first hop waits", func() bool {
		out, _ := box.Try("root", "cat /run/muster-bootstrap.status")
		return strings.HasPrefix(out, "75")
	})
	box.PowerCut()
	s.gateway.Open()
	box.Boot()
	s.lab.Within(time.Minute, "the node joins", func() bool {
		out, _ := box.Try("root", "cat /run/muster-bootstrap.status")
		return strings.TrimSpace(out) == "0 joined" && s.node("gpu-7").Status == "online"
	})
	if left := box.Sh("ls /etc/muster /etc/systemd/system /etc/systemd/system/multi-user.target.wants | " +
		"grep -e token -e first-hop || true"); left != "" {
		t.Errorf("on the machine there are %s", left)
	}
}

// TestCloudInitRefused boots machines whose first hop does not work: each says so on its console and in cloud-init's own status,
// installs nothing, and does not hold up the boot. If the cause may go away by itself, it tries again until it works, also after a
// reboot.
func TestCloudInitRefused(t *testing.T) {
	t.Parallel()
	digest := regexp.MustCompile(`SHA256='[0-9a-f]+'`)
	for _, c := range []struct {
		name, want, unit string
		spoil            func(s *site, m *minted, box *lab.Box)
		mend             func(s *site, box *lab.Box) // nil: only a new token would help
	}{
		{"unreachable", "cannot be fetched", "active", func(s *site, _ *minted, _ *lab.Box) { s.gateway.Stop() },
			func(s *site, _ *lab.Box) { s.gateway.Open() }},
		{"another script", "not the one that was promised", "active", func(_ *site, m *minted, _ *lab.Box) {
			m.UserData = digest.ReplaceAllString(m.UserData, "SHA256='"+strings.Repeat("0", 64)+"'")
		}, nil},
		{"revoked", "refused the script", "failed", func(s *site, m *minted, _ *lab.Box) { s.gateway.Muster("token", "revoke", m.id()) }, nil},
		{"script fails", "the script failed", "active", func(_ *site, _ *minted, box *lab.Box) {
			box.Write("/var/lib/muster-agent", "in the way", 0o600)
		},
			func(_ *site, box *lab.Box) { box.Sh("rm /var/lib/muster-agent") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			m := s.create("gpu-7", "--mode", "cloud-init")
			was := s.node("gpu-7")
			box := s.blank()
			c.spoil(s, &m, box)
			box.Seed(strings.Replace(m.UserData, "PATIENCE=180", "PATIENCE=3", 1)) // a test is not patient
			start := time.Now()
			status := box.FirstBoot(firstBoot)
			told := box.Sh("cat /run/muster-bootstrap.status")
			t.Logf("%s: %s\n%s", time.Since(start).Round(time.Millisecond), status, told)
			if strings.HasPrefix(told, "0") || !contains(told, c.want) {
				t.Errorf("the first hop's status: %s", told)
			}
			if got := box.Console(); !contains(got, "muster bootstrap of gpu-7: FAILED", c.want) {
				t.Errorf("the console: %s", got)
			}
			if !contains(status, "status: error") || box.Sh("systemctl is-system-running --wait || true") != "degraded" {
				t.Errorf("cloud-init is content: %s", status)
			}
			const left = "ls /etc/muster /etc/systemd/system | grep -e token -e first-hop -e muster-agent | tr '\\n' ' '"
			if got := box.Sh(left); got != "bootstrap-token first-hop.sh muster-first-hop.service" {
				t.Errorf("on the machine there are %s", got)
			}
			s.seenAfterReboot(box, c.want, c.unit)
			if c.mend == nil {
				if n := s.node("gpu-7"); n.Status != "pending" {
					t.Errorf("the node: %+v", n)
				}
				return
			}
			start = time.Now()
			c.mend(s, box)
			s.lab.Within(2*time.Minute, "the first hop is done by itself", func() bool {
				return box.Sh(left+"; cat /run/muster-bootstrap.status") == "muster-agent.service 0 joined"
			})
			s.joined(box, was, m, start)
			s.rebooted(box, was)
			if got := box.Sh("systemctl is-system-running || true"); got != "running" {
				t.Errorf("afterwards the machine is %s", got)
			}
		})
	}
}

// seenAfterReboot expects a first hop that did not work to show after a reboot.
func (s *site) seenAfterReboot(box *lab.Box, want, unit string) {
	s.Helper()
	box.Reboot()
	s.lab.Within(time.Minute, "the first hop tells what is wrong", func() bool {
		out, _ := box.Try("root", "cat /run/muster-bootstrap.status; systemctl is-active muster-first-hop")
		return contains(out, want) && strings.HasSuffix(strings.TrimSpace(out), "\n"+unit)
	})
}
