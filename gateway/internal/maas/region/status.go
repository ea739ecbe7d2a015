package region

import "muster/gateway/api/machines"

// Status is what one number of MAAS means.
type Status struct {
	Name        string // of MAAS, as its filter writes it
	State       string // in the words of machines.Machine
	Commissions bool   // MAAS takes Commission in it
}

// statuses stand at their numbers: all that MAAS 3.4 to 3.8 have.
var statuses = [...]Status{
	0:  {"new", machines.StateNew, true},
	1:  {"commissioning", machines.StateCommissioning, false},
	2:  {"failed_commissioning", machines.StateFailed, true},
	3:  {"missing", machines.StateBroken, false},
	4:  {"ready", machines.StateReady, true},
	5:  {"reserved", machines.StateAllocated, false},
	6:  {"deployed", machines.StateInstalled, false},
	7:  {"retired", machines.StateBroken, false},
	8:  {"broken", machines.StateBroken, true},
	9:  {"deploying", machines.StateDeploying, false},
	10: {"allocated", machines.StateAllocated, false},
	11: {"failed_deployment", machines.StateFailed, false},
	12: {"releasing", machines.StateReleasing, false},
	13: {"failed_releasing", machines.StateFailed, false},
	14: {"disk_erasing", machines.StateReleasing, false},
	15: {"failed_disk_erasing", machines.StateFailed, false},
	16: {"rescue_mode", machines.StateRescue, false},
	17: {"entering_rescue_mode", machines.StateRescue, false},
	18: {"failed_entering_rescue_mode", machines.StateFailed, false},
	19: {"exiting_rescue_mode", machines.StateRescue, false},
	20: {"failed_exiting_rescue_mode", machines.StateFailed, false},
	21: {"testing", machines.StateTesting, false},
	22: {"failed_testing", machines.StateFailed, false},
}

// StatusOf returns what a number means. A number that this version does not know is unknown, and nothing can be done with the machine.
func StatusOf(number int) Status {
	if number >= 0 && number < len(statuses) {
		return statuses[number]
	}
	return Status{State: machines.StateUnknown}
}
