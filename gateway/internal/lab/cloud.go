package lab

import "time"

// CloudInit is a Debian machine as clouds boot it, with what people use to bootstrap one by hand: cloud-init, sudo and jq.
// Without a seed cloud-init finds no datasource and turns itself off.
func CloudInit() Root {
	return Root{"cloud", "ca-certificates,cloud-init,curl,dbus,iproute2,jq,procps,sudo,systemd,systemd-sysv", true, false}
}

// Seed puts user-data where cloud-init's datasource NoCloud looks for it. It is for a box that has not started yet.
func (b *Box) Seed(userData string) {
	b.lab.T.Helper()
	const seed = "/var/lib/cloud/seed/nocloud/"
	b.Write(seed+"meta-data", "instance-id: "+b.name+"\nlocal-hostname: "+b.name+"\n", 0o644)
	b.Write(seed+"user-data", userData, 0o600)
	// Its own part of the image's settings: there are no locales and no SSH server here to set up.
	b.Write("/etc/cloud/cloud.cfg.d/lab.cfg", "locale: false\nssh_deletekeys: false\nssh_genkeytypes: []\n", 0o644)
}

// FirstBoot starts a box with a Seed and waits until cloud-init is through with it, well or not. It gives cloud-init's word
// for that, such as "status: done".
func (b *Box) FirstBoot(limit time.Duration) string {
	b.lab.T.Helper()
	b.spawn()
	status := ""
	b.lab.Within(limit, "cloud-init of "+b.name+" ends", func() bool {
		if b.nspawn.Ended() {
			b.lab.T.Fatalf("%s did not start:\n%s", b.name, b.nspawn.Text())
		}
		if b.leader = child(child(b.nspawn.PID())); !first(b.leader) {
			return false
		}
		// Until the final stage has ended there is no result; the word "status" alone may come from an earlier one.
		status, _ = b.Try("root", "test -e /run/cloud-init/result.json || test -e /run/cloud-init/disabled && cloud-init status --long")
		return status != ""
	})
	return status
}

// Console is what the box has shown on its console since it last started.
func (b *Box) Console() string { return b.nspawn.Text() }
