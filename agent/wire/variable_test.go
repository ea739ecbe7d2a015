package wire_test

import (
	"slices"
	"testing"

	"muster/agent/wire"
)

// TestWithout: a child gets every variable except the agent's.
func TestWithout(t *testing.T) {
	all := []string{"PATH=/bin", "MUSTER_TOKEN=mse_x", "MUSTERED=1", "MUSTER_NAME="}
	got := wire.WithoutEnv(all)
	if want := []string{"PATH=/bin", "MUSTERED=1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if all[1] != "MUSTER_TOKEN=mse_x" {
		t.Error("the environment itself was changed")
	}
}

func TestEnvOf(t *testing.T) {
	if got := wire.EnvOf("token-file"); got != wire.EnvTokenFile || !wire.EnvSecret(got) || wire.EnvSecret(wire.EnvOf("name")) {
		t.Errorf("%s", got)
	}
}
