//go:build real

package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/kit/lab"
)

// TestLogs reads real logs with the package that the agent reads them with: the journal of a machine with systemd, the kernel's log there,
// and what containers of podman write, with both of its drivers of logs.
func TestLogs(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	box := l.Box(lab.Containers())
	box.Boot()
	box.Podman()
	program := filepath.Join(l.Dir, "logs.test")
	build := exec.Command("go", "test", "-tags", "real", "-c", "-o", program, "./agent/internal/logs")
	build.Dir = lab.Tree()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	box.Install(program, "/opt/logs.test")
	read := func(user, variables string) {
		t.Helper()
		out, err := box.Try(user, "cd /tmp && "+variables+" /opt/logs.test -test.v -test.timeout 5m -test.run '^TestMachine$'")
		t.Logf("%s: %s", variables, out)
		if err != nil || !strings.Contains(out, "--- PASS: TestMachine") {
			t.Errorf("%s: %v", variables, err)
		}
	}
	read("root", "LOGS_MACHINE=journal")
	box.Sh("useradd --create-home --shell /bin/sh visitor")
	read("visitor", "LOGS_MACHINE=nobody")

	box.Sh(`set -e; mkdir -p /root/count/bin; cp /bin/busybox /root/count/bin; ln -s busybox /root/count/bin/sh
ln -s busybox /root/count/bin/sleep
tar -C /root/count -c . | podman import --quiet - counter:1 >/dev/null`)
	for _, driver := range []string{"k8s-file", "journald"} {
		box.Sh("podman run --detach --log-driver=" + driver + " --name muster-" + driver + " --label muster.task=t --label muster.workload=" +
			driver + ` localhost/counter:1 sh -c 'echo "it counts, correct horse battery"; i=0; while :; do i=$((i+1)); echo $i; sleep 0.5; done'`)
		read("root", "LOGS_MACHINE=podman LOGS_WORKLOAD="+driver)
		box.Sh("podman rm --force muster-" + driver)
	}
}
