//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// TestBusybox runs the installer if there is nothing but busybox: its shell, its wget, its sha256sum.
func TestBusybox(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	gateway := l.Gateway("--plain-listen", "127.0.0.1:7480", "--public-url", "http://"+lab.GatewayName+":7480")
	box := l.Box(lab.Busybox())
	box.AddGPU()
	box.Boot()
	before := box.Tree()
	token := gateway.Token()

	// The printed command, as a person without curl has to change it.
	command := strings.NewReplacer("curl -fsSL", "wget -q", " -o ", " -O ").Replace(token.Command)
	if !contains(command, "sha256sum -c", "wget -q") {
		t.Fatalf("over plain HTTP the command checks no digest: %s", command)
	}
	start := time.Now()
	out, err := box.Try("root", command)
	t.Logf("from pasting to the end: %s\n%s", time.Since(start).Round(time.Millisecond), out)
	if err != nil || !gateway.Heard(start) {
		t.Fatalf("%v: %+v", err, gateway.Nodes())
	}
	if found := box.Holding(secret(token)); len(found) > 0 {
		t.Errorf("the token's secret is still in %q", found)
	}
	if out, err = box.Try("root", "/var/lib/muster-agent/current/muster-agent leave"); err != nil {
		t.Fatalf("leave: %v\n%s", err, out)
	}
	t.Log(out)
	if more := lab.Differences(before, box.Tree()); len(more) > 0 {
		t.Errorf("leave did not leave the machine as it was: %q", more)
	}
}
