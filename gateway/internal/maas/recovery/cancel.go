package recovery

import (
	"muster/agent/wire"
	"muster/gateway/api/machines"
)

// Reached reports whether the work may have changed something that must be taken back: in MAAS, or the node of a deployment.
func (f Facts) Reached() bool {
	if f.Work.Act == machines.ActDeploy {
		return !prepares(f.Work.Step) || f.in(wire.StateDeploying)
	}
	return f.Work.Step != ""
}

// MayCancel says why the work cannot be taken back, and what a person does then. Both are empty if it can.
func (f Facts) MayCancel() (why, next string) {
	switch {
	case f.Work.Act == machines.ActDeploy || f.Gone:
		return "", ""
	case f.Status == statusErasing:
		return "MAAS erases its disks already, which cannot be taken back", "wait until it ends: muster maas show SYSTEM"
	case f.Status == statusReleasing:
		return "MAAS releases it already, which cannot be taken back", "wait until it ends: muster maas show SYSTEM"
	}
	return "", ""
}

// canceled ends a work that a person ended. A commissioning is aborted. What MAAS releases by now, it releases.
func (f Facts) canceled() Order {
	switch {
	case f.taken() == "" && f.Status == statusCommissioning && f.Locked:
		return wait(lockedInMAAS)
	case f.taken() == "" && f.Status == statusCommissioning:
		return Order{Ask: AskAbort}
	case f.Status == statusReleasing || f.Status == statusErasing:
		return wait("MAAS releases it")
	}
	return end("%s", f.Work.Failed)
}
