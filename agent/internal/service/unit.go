package service

import (
	"fmt"
	"strings"
	"time"
)

// systemUnits is the folder of the units that a machine's administrator has written.
const systemUnits = "/etc/systemd/system/"

// unitName is the name of the unit, in the system's systemd and in a user's.
const unitName = Name + ".service"

// What each failing kind of release costs, counted from the moment in which its trial begins. The old agent ends within 1 s, and systemd
// starts the new one unitRestart later, after settle, which takes at most SettleTime. Settle goes back after three starts that came to
// nothing, and after wire.TrialTime. All of them must be over within WayBack.
//
//   - It ends at its start, or cannot be started at all: three starts, and the settle of the fourth.
//   - It hangs before it is ready: systemd ends it after unitStart, or kills it unitStop later.
//   - It hangs once it is ready: unitWatchdog after its last sign of life, and unitStop later where it does not take the signal.
//   - It runs and does not reach the gateway, or hangs late: the guard that settle has started ends it, GuardTime after the beginning, and
//     kills it guardGrace later.
//
// A healthy agent gives a sign of life at least every 40 s, and has asked its gateway 30 s after its start.
const (
	unitRestart  = 2 * time.Second
	unitStart    = 60 * time.Second
	unitStop     = 15 * time.Second
	unitWatchdog = 60 * time.Second

	// SettleTime bounds one settle. It is more than what the one call that settle makes may take.
	SettleTime = 12 * time.Second
	// WayBack is how long after the beginning of a trial a version that has failed is replaced by the one before.
	WayBack = 2 * time.Minute
)

// unitHead and unitTail are the parts of the unit that are the same on all machines. Nothing in the unit depends on the agent's
// version: an update changes a link, never the unit.
const unitHead = `# Written by muster-agent join. Settings are in the file that EnvironmentFile names.

[Unit]
Description=muster agent: reports this machine to its fleet
# Not network-online.target: waiting for it would slow the boot, and the agent tries until the network is there.
After=network.target
# Restarted for ever, however often it ends.
StartLimitIntervalSec=0

[Service]
# Started means that the gateway was asked once, whatever it answered: one that is away does not fail the unit.
Type=notify
NotifyAccess=main
`

const unitTail = `Restart=always
RestartSec=%d
TimeoutStartSec=%d
TimeoutStopSec=%d
# Fed by the loop that reports, when it gets on: a loop that is stuck is not fed, and the agent is restarted.
WatchdogSec=%d
# Only the agent itself is stopped. What it started for others runs on through its restarts and updates.
KillMode=process
# Work that runs out of memory does not take the agent down.
OOMPolicy=continue
UMask=0077
# What is left out, because nvidia-smi and the work that the agent starts inherit it:
# - PrivateDevices, DevicePolicy, DeviceAllow and ProtectClock hide /dev/nvidia*, also those that appear later.
# - NoNewPrivileges, and what implies it, stops the setuid nvidia-modprobe that makes missing device files.
# - ProtectKernelModules stops the driver from being loaded; ProtectKernelTunables makes /sys read-only.
# - ProtectKernelLogs hides the driver's messages (Xid).
# - MemoryDenyWriteExecute, SystemCallFilter and RestrictNamespaces break what is compiled at run time, and containers.
# - ProtectSystem, ProtectHome and PrivateTmp change what work sees of the disk.
# - LimitNOFILE, LimitNPROC and the like: the machine's defaults are what work expects.

[Install]
`

// unitText is the unit for an agent in base, with its settings in this file.
func unitText(base, settings string, user bool) string {
	target := "multi-user.target"
	if user {
		target = "default.target"
	}
	layout := Layout{Base: base}
	start := escapeUnit(layout.Program()) + " run"
	tail := fmt.Sprintf(unitTail, seconds(unitRestart), seconds(unitStart), seconds(unitStop), seconds(unitWatchdog))
	return unitHead + "# The last good version looks first whether the one that is started has failed. Without it the start goes on.\n" +
		settleLine(base) + "ExecStart=" + start + "\nEnvironmentFile=" + escapeUnit(settings) + "\n" +
		tail + "WantedBy=" + target + "\n"
}

// settleLine has the last good version look first at the one that is started.
func settleLine(base string) string {
	return "ExecStartPre=-" + escapeUnit(Layout{Base: base}.GoodProgram()) + " settle --state " + escapeUnit(base) + "\n"
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// escapeUnit protects % from systemd, for which it begins a specifier. CheckPath has refused all other special characters.
func escapeUnit(path string) string { return strings.ReplaceAll(path, "%", "%%") }

const openRCHead = `#!/sbin/openrc-run
# Written by muster-agent join. Settings are in the file that is read below.

name="muster agent"
description="reports this machine to its fleet"
supervisor=supervise-daemon
`

const openRCTail = `pidfile="/run/${RC_SVCNAME}.pid"
# Restarted for ever, however often it ends.
respawn_delay=2
respawn_max=0
retry="TERM/15/KILL/5"
umask=0077
# Only the agent itself is stopped. What it started for others runs on through its restarts and updates.
rc_cgroup_cleanup="no"

depend() {
	use net dns
	after firewall
}
`

// openRCFallback starts the service all the same where the good version is missing.
func openRCFallback(base string) string {
	return "\n# Where the good version is missing or damaged, or is older than that, the service starts all the same.\nstart_pre() {\n" +
		"\t\"${command}\" launch --help >/dev/null 2>&1 || command=\"" + Layout{Base: base}.Program() + "\"\n}\n"
}

// launchArgs have the last good version become the one that is started.
func launchArgs(base string) string { return "launch --state " + base }

// openRCText is the init script for an agent in base, with its settings in this file.
func openRCText(base, settings string) string {
	return openRCHead + "# The last good version looks first whether the one that is started has failed, and then becomes it.\n" +
		"command=\"" + Layout{Base: base}.GoodProgram() + "\"\ncommand_args=\"" + launchArgs(base) + "\"\n" +
		openRCTail + openRCFallback(base) +
		"\nif [ -f \"" + settings + "\" ]; then\n\tset -o allexport\n\t. \"" + settings + "\"\n\tset +o allexport\nfi\n"
}
