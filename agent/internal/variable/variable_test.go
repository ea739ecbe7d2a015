package variable_test

import (
	"slices"
	"testing"

	"muster/agent/internal/variable"
)

// TestWithout: a child gets every variable except the agent's.
func TestWithout(t *testing.T) {
	all := []string{"PATH=/bin", "MUSTER_TOKEN=mse_x", "MUSTERED=1", "MUSTER_NAME="}
	got := variable.Without(all)
	if want := []string{"PATH=/bin", "MUSTERED=1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if all[1] != "MUSTER_TOKEN=mse_x" {
		t.Error("the environment itself was changed")
	}
}

func TestOf(t *testing.T) {
	if got := variable.Of("token-file"); got != variable.TokenFile || !variable.Secret(got) || variable.Secret(variable.Of("name")) {
		t.Errorf("%s", got)
	}
}
