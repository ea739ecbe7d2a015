package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/kit"
)

// digestOf is a digest that is easy to tell from others.
func digestOf(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// sampleReleases are two releases: one pushed, one that the gateway brought and that lies elsewhere besides.
func sampleReleases(now time.Time) []api.Release {
	program := func(digit, arch string) wire.ReleasePlatform {
		return wire.ReleasePlatform{OS: "linux", Arch: arch, Digest: digestOf(digit), Size: 4 << 20, Program: digestOf(digit),
			ProgramSize: 9 << 20}
	}
	return []api.Release{
		{Digest: digestOf("4"), Version: "0.4.0", Channels: []string{"canary", "stable"}, Platforms: []string{"linux/amd64", "linux/arm64"},
			Size: 734, SignedBy: "9f86d081884c7d65", CreatedAt: now.Add(-2 * time.Hour), CreatedBy: "account:ci",
			Programs: []wire.ReleasePlatform{program("a", "amd64"), program("b", "arm64")}},
		{Digest: digestOf("3"), Version: "0.3.0", Channels: []string{}, Platforms: []string{"linux/amd64"}, Size: 412,
			CreatedAt: now.Add(-40 * 24 * time.Hour), CreatedBy: "gateway", Carried: true, Reference: "ghcr.io/example/muster-agent",
			Programs: []wire.ReleasePlatform{program("c", "amd64")}},
	}
}

// sampleChannels are a rollout that was halted, a channel that a restore has left behind, a rollout whose first wave is watched, and one
// that waits for a node that died.
func sampleChannels(now time.Time) []api.Channel {
	next := now.Add(9 * time.Minute)
	return []api.Channel{
		{Channel: "beta", Digest: digestOf("4"), Version: "0.4.0", Previous: digestOf("3"), Sequence: 3, SignedBy: "9f86d081884c7d65",
			State: "behind", Why: "nodes have obeyed the number 7", Wave: 1, Waves: 1, Counts: api.RolloutCounts{Nodes: 2, Offline: 2},
			UpdatedAt: now.Add(-time.Hour), UpdatedBy: "account:ci", Expires: now.Add(89 * 24 * time.Hour)},
		{Channel: "stable", Digest: digestOf("4"), Version: "0.4.0", Previous: digestOf("3"), Sequence: 12, SignedBy: "9f86d081884c7d65",
			State: "halted", Why: "2 of the wave's 4 nodes failed, fell silent or did not get on, and 0 may; online, and not through in time: gpu-2",
			Wave: 2, Waves: 3, Counts: api.RolloutCounts{Nodes: 9, Running: 2, Waiting: 3, Failed: 1, Silent: 1, Late: 1, Held: 1,
				RolledBack: 1}, UpdatedAt: now.Add(-3 * time.Hour), UpdatedBy: "account:ci", Expires: now.Add(89 * 24 * time.Hour),
			ToSign: "the release before, so that nodes go back: muster release sign --key FILE"},
		{Channel: "spot", Digest: digestOf("4"), Version: "0.4.0", Previous: digestOf("3"), Sequence: 2, SignedBy: "9f86d081884c7d65",
			State: "running", Wave: 1, Waves: 2, NextAt: &next, Counts: api.RolloutCounts{Nodes: 9, Running: 1, Waiting: 8},
			UpdatedAt: now.Add(-time.Minute), UpdatedBy: "account:ci", Expires: now.Add(89 * 24 * time.Hour)},
		{Channel: "edge", Digest: digestOf("4"), Version: "0.4.0", Previous: digestOf("3"), Sequence: 5, SignedBy: "9f86d081884c7d65",
			State: "running", Wave: 1, Waves: 2, Counts: api.RolloutCounts{Nodes: 6, Running: 1, Waiting: 1, Admitted: 1, Offline: 3},
			UpdatedAt: now.Add(-time.Minute), UpdatedBy: "account:ci", Expires: now.Add(89 * 24 * time.Hour)},
	}
}

func sampleNodes(now time.Time) []api.ChannelNode {
	at := now.Add(-5 * time.Minute)
	return []api.ChannelNode{
		{ID: "n-1", Name: "gpu-1", Wave: 2, State: "rolled_back", Phase: "rolled_back", Code: "crashed", Detail: "it ended three times",
			Log: "panic: no such device\n\x1b[31mgoroutine 1\nexit 2\n", At: &at},
		{ID: "n-2", Name: "gpu-2", Wave: 2, State: "late"},
		{ID: "n-3", Name: "gpu-3", Wave: 2, State: "silent", Phase: "trial", At: &at},
		{ID: "n-4", Name: "gpu-4", State: "held", Held: "its maintenance window is closed"},
		{ID: "n-5", Name: "gpu-5", Wave: 1, State: "running", Phase: "committed", At: &at},
	}
}

// edgeNodes are those of a rollout that waits: for one that has said nothing yet, and for two that are not heard.
func edgeNodes() []api.ChannelNode {
	return []api.ChannelNode{
		{ID: "n-1", Name: "box-1", State: "waiting", Held: "its wave has not begun"},
		{ID: "n-2", Name: "box-2", State: "offline"},
		{ID: "n-3", Name: "box-3", State: "running"},
		{ID: "n-4", Name: "box-4", Wave: 1, State: "admitted"},
		{ID: "n-5", Name: "box-5", Wave: 1, State: "offline"},
		{ID: "n-6", Name: "box-6", Wave: 1, State: "offline"},
	}
}

// playReleases answers as a gateway with these releases does.
func playReleases(t *testing.T, now time.Time) string {
	t.Helper()
	const base = "GET /api/v1/admin/"
	mux := http.NewServeMux()
	answer := func(path string, body any) {
		mux.HandleFunc(base+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body)
		})
	}
	releases := sampleReleases(now)
	channels := sampleChannels(now)
	nodes := sampleNodes(now)
	answer("node-agent-releases", api.ReleaseList{Releases: releases})
	answer("node-agent-releases/0.4.0", releases[0])
	answer("node-agent-releases/0.3.0", releases[1])
	answer("channels", api.ChannelList{Channels: channels})
	answer("channels/beta", channels[0])
	answer("channels/beta/nodes", api.ChannelNodes{Nodes: []api.ChannelNode{}})
	answer("channels/stable", channels[1])
	answer("channels/stable/nodes", api.ChannelNodes{Nodes: nodes, Total: len(nodes)})
	answer("channels/spot", channels[2])
	answer("channels/spot/nodes", api.ChannelNodes{Nodes: []api.ChannelNode{}})
	answer("channels/edge", channels[3])
	answer("channels/edge/nodes", api.ChannelNodes{Nodes: edgeNodes(), Total: 6})
	answer("pins", api.PinList{Pins: []api.Pin{
		{Node: "gpu-7", NodeID: "n-7", Tenant: "default", Channel: "stable", At: now.Add(-48 * time.Hour), By: "operator:socket"},
		{Node: "gpu-8", NodeID: "n-8", Tenant: "lab", Digest: digestOf("3"), Version: "0.3.0", Channel: "stable", At: now.Add(-time.Minute),
			By: "account:ci"},
	}})
	return listen(t, mux)
}

// TestReleaseLists: what an operator sees of releases, channels and pins, on a wide screen, a narrow one, and in a pipe.
func TestReleaseLists(t *testing.T) {
	h := newHouse(t)
	h.dir = playReleases(t, h.now)
	pages := map[string][]string{
		"release-ls":   {"release ls", "release ls -o wide"},
		"release-show": {"release show 0.4.0", "release show 0.3.0"},
		"release-status": {"release status", "release status --channel stable", "release status --channel stable -o wide",
			"release status --channel beta", "release status --channel spot", "release status --channel edge"},
		"release-pins": {"release pins"},
	}
	for name, lines := range pages {
		var all strings.Builder
		for _, screen := range []int{0, 80} {
			h.screen = screen
			for _, line := range lines {
				all.WriteString("$ muster " + line + "\n" + h.done(strings.Fields(line)...) + "\n")
			}
		}
		if strings.Contains(all.String(), "\x1b") {
			t.Errorf("%s: what a node says controls the terminal", name)
		}
		kit.Golden(t, name+".golden", all.String())
	}
}
