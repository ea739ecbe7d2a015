//go:build real

package lab_test

import (
	"testing"

	"muster/gateway/internal/kit/lab"
)

// TestBoxes tests the lab itself: machines boot and reboot, they reach their gateway and no other network, and a test finds what it
// looks for on them.
func TestBoxes(t *testing.T) {
	t.Parallel()
	for name, root := range map[string]lab.Root{"systemd": lab.Systemd(), "plain": lab.Plain(), "busybox": lab.Busybox()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t)
			gateway := l.Gateway("--plain-listen", "127.0.0.1:7480")
			box := l.Box(root)
			box.Boot()
			before := box.Tree()
			work := box.Workload()
			work.Unharmed()
			if got := box.Sh("wget -qO- http://" + lab.GatewayName + ":7480/healthz 2>/dev/null || curl -s http://" + lab.GatewayName +
				":7480/healthz"); !contains(got, "ok") {
				t.Errorf("healthz: %s", got)
			}
			if got := box.Sh("ls /sys/class/net | tr '\\n' ' '"); got != "lo" {
				t.Errorf("network: %s, want loopback alone", got)
			}
			if nodes := gateway.Nodes(); len(nodes) != 0 {
				t.Errorf("nodes: %+v", nodes)
			}
			box.Write("/srv/needle", "stands in here", 0o600)
			box.Sh("environment='stands in here' setsid sleep 100 >/dev/null 2>&1 &")
			if got := box.Holding(lab.Literal("stands in here")); len(got) != 2 || got[0] != "/srv/needle" ||
				!contains(got[1], "environ of ", "sleep 100") {
				t.Errorf("holding: %q", got)
			}
			box.Reboot()
			if got := lab.Differences(before, box.Tree()); len(got) != 1 || !contains(got[0], "/srv/needle: new") {
				t.Errorf("differences: %q", got)
			}
		})
	}
}
