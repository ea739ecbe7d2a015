// Package disktest plays a disk that fails and a machine that loses its power. It is for tests of what promises to outlive both.
package disktest

import "muster/agent/disk"

// Named returns Steps that call see with the names only.
func Named(see func(name string) error) disk.Steps {
	if see == nil {
		return nil
	}
	return func(s disk.Step) error { return see(s.Name) }
}
