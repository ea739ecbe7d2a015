package region

import "slices"

// State is a machine's state in muster's words.
type State string

// States.
const (
	Uncommissioned State = "new"           // MAAS has not looked at its hardware, or that did not pass
	Commissioning  State = "commissioning" // MAAS looks at its hardware
	Ready          State = "ready"         // it can be acquired
	Held           State = "held"          // somebody has acquired it; nothing is installed
	Deploying      State = "deploying"
	Deployed       State = "deployed" // MAAS says so: that its agent reports is another thing
	Releasing      State = "releasing"
	Failed         State = "failed"  // what MAAS did last failed, or somebody said that it is broken
	Away           State = "away"    // people have taken it out: a rescue, a test, missing, retired
	Unknown        State = "unknown" // a status that came after this table
)

// Status is what one number of MAAS means. The last five say which operations MAAS takes in it, for who may.
type Status struct {
	Number int
	Name   string // of MAAS, as its filter writes it
	State  State
	Moves  bool // MAAS is at work: it ends by itself, or by a time-out

	Commissions bool // Commission
	Deploys     bool // Deploy; Acquire takes Ready alone
	Releases    bool // Release does something
	Aborts      bool // Abort
	Fixes       bool // MarkFixed
}

// statuses stand at their numbers.
var statuses = [...]Status{
	{Number: 0, Name: "new", State: Uncommissioned, Commissions: true},
	{Number: 1, Name: "commissioning", State: Commissioning, Moves: true, Aborts: true},
	{Number: 2, Name: "failed_commissioning", State: Failed, Commissions: true},
	{Number: 3, Name: "missing", State: Away},
	{Number: 4, Name: "ready", State: Ready, Commissions: true, Deploys: true},
	{Number: 5, Name: "reserved", State: Held, Releases: true},
	{Number: 6, Name: "deployed", State: Deployed, Releases: true},
	{Number: 7, Name: "retired", State: Away},
	{Number: 8, Name: "broken", State: Failed, Commissions: true, Releases: true, Fixes: true},
	{Number: 9, Name: "deploying", State: Deploying, Moves: true, Releases: true, Aborts: true},
	{Number: 10, Name: "allocated", State: Held, Deploys: true, Releases: true},
	{Number: 11, Name: "failed_deployment", State: Failed, Releases: true},
	{Number: 12, Name: "releasing", State: Releasing, Moves: true},
	{Number: 13, Name: "failed_releasing", State: Failed, Releases: true},
	{Number: 14, Name: "disk_erasing", State: Releasing, Moves: true, Aborts: true},
	{Number: 15, Name: "failed_disk_erasing", State: Failed, Releases: true},
	{Number: 16, Name: "rescue_mode", State: Away},
	{Number: 17, Name: "entering_rescue_mode", State: Away, Moves: true},
	{Number: 18, Name: "failed_entering_rescue_mode", State: Failed},
	{Number: 19, Name: "exiting_rescue_mode", State: Away, Moves: true},
	{Number: 20, Name: "failed_exiting_rescue_mode", State: Failed},
	{Number: 21, Name: "testing", State: Away, Moves: true, Aborts: true},
	{Number: 22, Name: "failed_testing", State: Failed},
}

// Statuses are all that MAAS 3.4 to 3.8 have, by number.
func Statuses() []Status { return slices.Clone(statuses[:]) }

// StatusOf is what a number means. One that MAAS got later is Unknown, and nothing can be done with it.
func StatusOf(number int) Status {
	if number >= 0 && number < len(statuses) {
		return statuses[number]
	}
	return Status{Number: number, State: Unknown}
}
