// Package kit has what the tests of many packages begin with. No program imports it.
package kit

import (
	"testing"
	"time"

	"muster/store"
	"muster/store/storetest"
)

// Store returns a store with nothing in it, whose clock is now; nil: time.Now. It is closed at the end of the test.
func Store(t testing.TB, now func() time.Time) *store.Store {
	t.Helper()
	return storetest.Open(t, now)
}
