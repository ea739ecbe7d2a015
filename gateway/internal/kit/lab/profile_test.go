//go:build real

package lab_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/kit/lab"
)

// TestCloudInitProfile boots machines with what the built-in profiles have cloud-init do. A machine that carries the other profile's mark
// is
// left as it is: neither its kernel's arguments nor its modules change.
func TestCloudInitProfile(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	gateway := l.Gateway()
	agent, err := os.ReadFile(filepath.Join(lab.Tree(), "bin", "muster-agent"))
	if err != nil {
		t.Fatal(err)
	}
	packages := regexp.MustCompile(`(?m)^packages: .*\n`)
	const grub = "/etc/default/grub.d/60-muster-profile.cfg"
	for _, c := range []struct {
		name, noted, want, says string
		changes                 bool
	}{
		{api.ProfileSliceVM, "", api.ProfileSliceVM, api.ProfileSliceVM, true},
		{api.ProfileBareMetal, "", api.ProfileBareMetal, api.ProfileBareMetal, true},
		{api.ProfileSliceVM, api.ProfileBareMetal, api.ProfileBareMetal, "was set up for", false},
	} {
		var p api.Profile
		if err := json.Unmarshal([]byte(gateway.Muster("profile", "show", c.name, "-o", "json")), &p); err != nil {
			t.Fatal(err)
		}
		box := l.Box(lab.CloudInit())
		box.Write("/var/lib/muster-agent/current/muster-agent", string(agent), 0o755)
		box.Write("/usr/sbin/update-grub", "#!/bin/sh\ncat /etc/default/grub.d/*.cfg >/root/grub\n", 0o755)
		if c.noted != "" {
			box.Write("/etc/muster/profile", c.noted+"\n", 0o644)
		}
		box.Seed(packages.ReplaceAllString(p.CloudConfig, "")) // the lab has no network
		status := box.FirstBoot(firstBoot)
		log := box.Sh("cat /var/log/cloud-init-output.log")
		if out, err := box.Try("root", "cloud-init schema --config-file "+seedFile); err != nil || !contains(out, "Valid cloud-config") {
			t.Errorf("%s: cloud-init schema: %v\n%s", c.name, err, out)
		}
		if got := box.Sh("cat /etc/muster/profile"); got != c.want {
			t.Errorf("%s on a machine of %q: it carries %q\n%s\n%s", c.name, c.noted, got, status, log)
		}
		_, missing := box.Try("root", "test -e "+grub+" && grep -q iommu=pt /root/grub")
		if changed := missing == nil; changed != c.changes {
			t.Errorf("%s on a machine of %q: changed %v, want %v\n%s", c.name, c.noted, changed, c.changes, log)
		}
		if !contains(log, c.says) {
			t.Errorf("%s on a machine of %q: the log does not say %q:\n%s", c.name, c.noted, c.says, log)
		}
	}
}
