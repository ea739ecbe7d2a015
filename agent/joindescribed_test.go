package main

import (
	"os"
	"path/filepath"
	"testing"

	"muster/agent/internal/service"
)

// TestJoinKeepsDescription: what a bootstrap script wrote about the node stays in the settings. A token, and variables that the agent
// does not know, do not stay.
func TestJoinKeepsDescription(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.mkdir("etc/muster")
	path := filepath.Join(b.root, "etc/muster/agent.env")
	text := "MUSTER_NODE_ID=n-1\nMUSTER_NODE_URL=" + b.url + "\nMUSTER_TASK_KEYS=\nMUSTER_TRUST_KEY=a+/=\nMUSTER_TOKEN=mse_x\nMUSTER_OTHER=1\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.joined()
	got, err := service.ReadSettings(path)
	want := service.Settings{
		"MUSTER_GATEWAY": b.url, "MUSTER_STATE": b.base, "MUSTER_NAME": "gpu-1", "MUSTER_NO_GPU": "true", "MUSTER_INTERVAL": "200ms",
		"MUSTER_NODE_ID": "n-1", "MUSTER_NODE_URL": b.url, "MUSTER_TASK_KEYS": "", "MUSTER_TRUST_KEY": "a+/=",
	}
	if err != nil || !got.Equal(want) {
		t.Errorf("settings %v, %v; want %v", got, err, want)
	}
}
