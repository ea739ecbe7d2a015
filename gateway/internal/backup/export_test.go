package backup

import (
	"net/http"

	"muster/agent/disk"
)

// On gives an Offline whose restores tell of their steps.
func On(o Offline, steps disk.Steps) Offline {
	o.disk = steps
	return o
}

// Through gives an Offline with another way to a shared store.
func Through(o Offline, way http.RoundTripper) Offline {
	o.way = way
	return o
}
