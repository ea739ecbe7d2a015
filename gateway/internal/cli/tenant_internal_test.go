package cli

import "testing"

// TestMistyped: one slip of the hand is a mistake. What differs as names of a family do is meant.
func TestMistyped(t *testing.T) {
	for _, c := range []struct {
		typed, known string
		want         bool
	}{
		{"platfrom", "platform", true}, {"platfor", "platform", true}, {"platforms", "platform", true}, {"plattform", "platform", true},
		{"xlatform", "platform", true}, {"platforn", "platform", true}, {"Platform", "platform", true}, {"team_a", "team-a", true},
		{"teama", "team-a", true}, {"taem-a", "team-a", true}, {"site-berlni", "site-berlin", true},
		{"platform", "platform", false}, {"team-a", "team-b", false}, {"site1", "site2", false}, {"site-1", "site-2", false},
		{"site", "site1", false}, {"site10", "site1", false}, {"dev", "div", false}, {"prod", "dev", false}, {"research", "platform", false},
		{"plaftrom", "platform", false}, {"taem-b", "team-a", false}, {"", "a", false}, {"a", "", false}, {"-", "--", true},
		{"default", "platform", false}, {"platform", "platform-eu", false}, {"tmea", "team", false}, {"teem", "team", true},
	} {
		if got := mistyped(c.typed, c.known); got != c.want {
			t.Errorf("%q for %q: got %v", c.typed, c.known, got)
		}
	}
}

func FuzzMistyped(f *testing.F) {
	f.Add("platfrom", "platform")
	f.Add("", "-._")
	f.Fuzz(func(t *testing.T, a, b string) {
		if mistyped(a, a) || mistyped(b, b) {
			t.Errorf("%q or %q is a mistake for itself", a, b)
		}
		if mistyped(a, b) != mistyped(b, a) {
			t.Errorf("%q and %q: not the same both ways", a, b)
		}
	})
}
