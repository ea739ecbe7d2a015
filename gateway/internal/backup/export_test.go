package backup

import "muster/agent/disk"

// On gives an Offline whose restores tell of their steps.
func On(o Offline, steps disk.Steps) Offline {
	o.disk = steps
	return o
}
