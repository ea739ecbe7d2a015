//go:build real

package lab

import "time"

// CloudInit is a Debian machine as clouds boot it, with cloud-init, and with sudo and jq, which people use to bootstrap one by
// hand. Without a Seed cloud-init finds no datasource and turns itself off.
func CloudInit() Root {
	return Root{name: "cloud", packages: "ca-certificates,cloud-init,curl,dbus,iproute2,jq,procps,sudo,systemd,systemd-sysv", systemd: true}
}

// imageSettings are what the maker of an image tells cloud-init: to make no locales, and to write /etc/hosts anew at every boot.
const imageSettings = "locale: C.UTF-8\nmanage_etc_hosts: true\n"

// consoleUnit gives the box a terminal as its console, and keeps what is shown there.
const consoleUnit = `[Unit]
DefaultDependencies=no
Before=cloud-init-local.service
[Service]
ExecStart=script --quiet --flush --command "ln -sf $$(tty) /dev/console; exec sleep infinity" /run/lab-console
`

// Seed puts user-data where cloud-init's datasource NoCloud looks for it, before the box's first boot.
func (b *Box) Seed(userData string) {
	b.lab.T.Helper()
	const seed = "/var/lib/cloud/seed/nocloud/"
	b.Write(seed+"meta-data", "instance-id: "+b.name+"\nlocal-hostname: "+b.name+"\n", 0o644)
	b.Write(seed+"user-data", userData, 0o600)
	b.Write("/etc/cloud/cloud.cfg.d/lab.cfg", imageSettings, 0o644)
	b.Write("/etc/systemd/system/lab-console.service", consoleUnit, 0o644)
	b.Write("/etc/systemd/system/console-getty.service", "", 0o644) // masked: a login there would hang the terminal up
	b.Write("/etc/systemd/system/sysinit.target.d/lab.conf", "[Unit]\nWants=lab-console.service\n", 0o644)
}

// FirstBoot starts a box with a Seed and waits until cloud-init has ended, well or not. It gives what cloud-init says about
// that, such as "status: done" and more lines.
func (b *Box) FirstBoot(limit time.Duration) string {
	b.lab.T.Helper()
	b.Start()
	status := ""
	b.lab.Within(limit, "cloud-init of "+b.name+" ends", func() bool {
		if b.nspawn.Ended() {
			b.lab.T.Fatalf("%s did not start:\n%s", b.name, b.nspawn.Text())
		}
		if b.leader = child(child(b.nspawn.PID())); !first(b.leader) {
			return false
		}
		status, _ = b.Try("root", "if test -e /run/cloud-init/result.json || test -e /run/cloud-init/disabled; then cloud-init status --long; fi")
		return status != ""
	})
	return status
}

// Begin starts a box and waits for its first process only. At that time cloud-init has hardly begun.
func (b *Box) Begin() {
	b.lab.T.Helper()
	b.Start()
	b.lab.Until(b.name+" begins", func() bool {
		if b.nspawn.Ended() {
			b.lab.T.Fatalf("%s did not start:\n%s", b.name, b.nspawn.Text())
		}
		b.leader = child(child(b.nspawn.PID()))
		return first(b.leader)
	})
}

// Console is what the console of a box with a Seed has shown since it last booted.
func (b *Box) Console() string {
	b.lab.T.Helper()
	return b.Sh("cat /run/lab-console")
}
