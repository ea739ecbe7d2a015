//go:build real

package lab_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// TestLostGateway goes through the page `muster help lost-gateway`, command by command: the machine of the gateway is gone, with its
// disk, and there is a backup and the master key.
func TestLostGateway(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	host := l.Box(lab.Systemd())
	host.Install(lab.Binary(), "/root/muster")
	host.Boot()
	flags := " --public-url " + lab.URL + " --listen 127.0.0.1:" + lab.Port + " --heartbeat-interval 5s"
	host.Sh("/root/muster service install" + flags)
	gateway := host.Gateway()

	before := l.Box(lab.Plain())
	after := l.Box(lab.Plain())
	before.Boot()
	before.Sh(gateway.Token().Command + " --name before")
	host.Sh("muster backup /root/backup.db && cp /etc/muster/master.key /root/master.key")
	after.Boot()
	after.Sh(gateway.Token().Command + " --name after")

	host.Sh("systemctl disable --now muster && rm -r /var/lib/muster /etc/muster /usr/local/bin/muster /etc/systemd/system/muster.service " +
		"&& userdel muster && systemctl daemon-reload")
	t.Log(host.Sh("/root/muster restore /root/backup.db --data /var/lib/muster --master-key-file /root/master.key"))
	restored := time.Now()
	t.Log(host.Sh("/root/muster service install --data /var/lib/muster --master-key-file /root/master.key" + flags))
	if accounts := host.Sh("muster account ls"); !strings.Contains(accounts, "NAME") {
		t.Errorf("muster account ls: %s", accounts)
	}
	l.Until("the node of before comes back by itself", func() bool { return gateway.Heard(restored) })
	l.Until("the machine that joined since is named", func() bool {
		return strings.Contains(gateway.Muster("events", "--since", "1h"), "adopt.refused")
	})
	t.Log(after.Sh(gateway.Token().Command))
	t.Log(gateway.Muster("node", "wait", "before", "after"))
}
