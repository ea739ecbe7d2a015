package recovery_test

import (
	"slices"
	"testing"

	"muster/gateway/internal/maas/recovery"
)

// TestOld goes through all combinations: of an old view what is wrong stays said, nothing may begin, and nothing is done or said to be
// done.
func TestOld(t *testing.T) {
	t.Parallel()
	broken, table := 0, recovery.Table()
	each(t, begun(), func(f recovery.Facts) {
		found := recovery.Find(table, f)
		f.Old = true
		bad := ""
		for _, row := range recovery.Find(table, f) {
			if row.Does != "" && row.Does != recovery.Continues {
				bad = "it does " + row.Does
			}
			found = slices.DeleteFunc(found, func(r recovery.Row) bool { return r.Name == row.Name && r.Next == row.Next })
		}
		if slices.ContainsFunc(found, func(r recovery.Row) bool { return r.Severity != "" }) {
			bad = "it hides " + found[0].Name
		}
		o := f.Step()
		if why, next := f.May(); why == "" || next == "" || o.Wait == "" || o != (recovery.Order{Wait: o.Wait}) {
			bad = "it goes on"
		}
		if bad != "" {
			if broken++; broken < 6 {
				t.Errorf("%s: %s", bad, describe(f, o))
			}
		}
	})
}
