//go:build real

package lab_test

import (
	"testing"
	"time"

	"muster/gateway/internal/lab"
)

// TestBusybox runs the installer where there is nothing but busybox: its shell, its wget, its sha256sum.
func TestBusybox(t *testing.T) {
	l := lab.New(t)
	const plain = "http://" + lab.GatewayName + ":7480"
	gateway := l.Gateway("--plain-listen", "127.0.0.1:7480")
	box := l.Box(lab.Busybox())
	box.AddGPU()
	box.Boot()
	before := box.Tree()
	token := gateway.Token()

	if out, err := box.Try("root", "wget -qO- "+plain+"/install.sh | head -c 4000 | MUSTER_TOKEN="+token.Token+" sh"); err == nil {
		t.Logf("cut off: %s", out)
	}
	if more := lab.Differences(before, box.Tree()); len(more) > 0 {
		t.Errorf("a download that broke off changed %q", more)
	}
	start := time.Now()
	out, err := box.Try("root", "wget -qO- "+plain+"/install.sh | MUSTER_TOKEN="+token.Token+" sh")
	t.Logf("from pasting to the end: %s\n%s", time.Since(start).Round(time.Millisecond), out)
	if err != nil || !gateway.Heard(start) {
		t.Fatalf("%v: %+v", err, gateway.Nodes())
	}
	if found := box.Holding(secret(token.Token)); len(found) > 0 {
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
