package picture_test

import (
	"fmt"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

func chips(list []picture.Chip) (text string) {
	for _, c := range list {
		text += fmt.Sprintf("[%s=%s %s]", c.Name, c.Value, c.Whole)
	}
	return text
}

// TestEvents: sentences stand out, empty details are left out, a digest is cut, and what is long waits behind a click.
func TestEvents(t *testing.T) {
	const digest = "sha256:e7c815cdcee9cae6fd4f14aa2f9a0905930617a7133b12a334a296d7bc5e0517"
	for _, c := range []struct {
		detail            map[string]string
		text, chips, more string
	}{
		{nil, "", "", ""},
		{map[string]string{"from": "active", "to": "drained"}, "", "[=active → drained ]", ""},
		{map[string]string{"to": "drained", "tags": ""}, "", "[to=drained ]", ""},
		{map[string]string{"text": "a", "reason": "b", "uses": "3"}, "b; a", "[uses=3 ]", ""},
		{map[string]string{"gpu_probe_failed": "nvidia-smi ended with 18, which nobody understands here"},
			"nvidia-smi ended with 18, which nobody understands here", "", ""},
		{map[string]string{"release": digest, "a": "1", "b": "2", "c": "3", "tags": ""}, "",
			"[a=1 ][b=2 ][c=3 ][release=sha256:e7c815cdcee9 " + digest + "]", ""},
		{map[string]string{"release": digest, "a": "1", "b": "22", "c": "333", "d": "4444"}, "", "[a=1 ][b=22 ][c=333 ][d=4444 ]",
			"[release=sha256:e7c815cdcee9 " + digest + "]"},
		{map[string]string{"release": digest, "reference": "registry.example/muster/agent:1.4.0"}, "",
			"[release=sha256:e7c815cdcee9 " + digest + "]",
			"[reference=registry.example/muster/agent:1.4.0 ]"},
		{map[string]string{"set.\x1b": "\x1b[2J"}, "", `[set.\u001b=\u001b[2J ]`, ""},
	} {
		got := picture.EventsOf([]api.Event{{Detail: c.detail}})[0]
		if got.Text != c.text || chips(got.Chips) != c.chips || chips(got.More) != c.more {
			t.Errorf("%v: got %q, %s, %s", c.detail, got.Text, chips(got.Chips), chips(got.More))
		}
	}
}

// TestEventsSayOnce: one error is said once in a list, and not at all beside a finding that says it.
func TestEventsSayOnce(t *testing.T) {
	const fault = "nvidia-smi ended with 18: the driver was updated while it was in use"
	events := []api.Event{{Kind: "alert.fired", Detail: map[string]string{"text": "gpu-1 is unavailable; " + fault}},
		{Kind: "health.found", Detail: map[string]string{"text": fault}},
		{Kind: "node.failed", Detail: map[string]string{"gpu_probe_failed": fault}},
		{Kind: "node.drained", Detail: map[string]string{"reason": "repair"}}}
	texts := func(told ...string) (all string) {
		for _, e := range picture.EventsOf(events, told...) {
			all += e.Text + "|"
		}
		return all
	}
	if got, want := texts(), "gpu-1 is unavailable; "+fault+"|||repair|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := texts(fault), "gpu-1 is unavailable|||repair|"; got != want {
		t.Errorf("beside a finding: got %q, want %q", got, want)
	}
}
