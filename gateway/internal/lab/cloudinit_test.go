//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/lab"
)

func TestCloudInitTry(t *testing.T) {
	l := lab.New(t)
	g := l.Gateway("--plain-listen", "127.0.0.1:7480", "--bootstrap-resolve-address", "127.0.0.1")
	g.Muster("node", "create", "gpu-7", "-o", "json")
	data := g.Muster("bootstrap", "gpu-7", "-o", "user-data")
	t.Log(data)
	box := l.Box(lab.CloudInit())
	box.AddGPU()
	box.Write("/etc/hosts", "127.0.0.1 localhost\n", 0o644)
	box.Seed(data)
	start := time.Now()
	status := box.FirstBoot(4 * time.Minute)
	t.Log(time.Since(start), status)
	t.Log(box.Console())
	out, _ := box.Try("root", "ls -la /dev/console /dev/pts; echo hello >/dev/console; ls -l /proc/1/fd/ | head -5; cat /run/muster-bootstrap.status; cloud-init schema --config-file /var/lib/cloud/seed/nocloud/user-data; cat /var/log/cloud-init-output.log; cat /etc/hosts; systemctl --failed; systemctl is-system-running; systemctl list-jobs; cat /run/cloud-init/*.log /run/cloud-init/result.json; ls -la /etc/muster /var/lib/muster-agent")
	t.Log(out)
	t.Log(strings.Join([]string{g.Muster("node", "ls", "--all"), g.Muster("events")}, "\n"))
	t.Fail()
}
