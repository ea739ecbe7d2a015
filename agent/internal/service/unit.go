package service

import (
	_ "embed"
	"strconv"
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

	// SettleTime bounds one settle. It is longer than the one call that settle makes may take.
	SettleTime = 12 * time.Second
	// WayBack is how long after the beginning of a trial the previous version takes the place of a version that has failed.
	WayBack = 2 * time.Minute
)

// What an init system reads to keep the agent. Nothing in it depends on the agent's version: an update changes a link, never the unit.
var (
	//go:embed muster-agent.service
	unitTemplate string
	//go:embed muster-agent.openrc
	openRCTemplate string
)

// unitText is the unit of systemd for an agent in base, with its settings in this file.
func unitText(base, settings string, user bool) string {
	target := "multi-user.target"
	if user {
		target = "default.target"
	}
	return filled(unitTemplate, base, settings, "{TARGET}", target, "{RESTART}", seconds(unitRestart), "{START}", seconds(unitStart),
		"{STOP}", seconds(unitStop), "{WATCHDOG}", seconds(unitWatchdog))
}

// openRCText is the init script of OpenRC.
func openRCText(base, settings string) string { return filled(openRCTemplate, base, settings) }

// filled puts paths and more into a template. CheckPath has refused all characters with a meaning there.
func filled(template, base, settings string, more ...string) string {
	layout := Layout{Base: base}
	values := append(more, "{BASE}", base, "{SETTINGS}", settings, "{PROGRAM}", layout.Program(), "{GOOD}", layout.GoodProgram())
	return strings.NewReplacer(values...).Replace(template)
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
