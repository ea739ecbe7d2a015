package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"muster/gateway/api"
)

func (h *house) channel() (c api.Channel) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.muster("release", "status", "--channel", "stable", "-o", "json")), &c); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// TestBackupReleases: a backup has the registry. After a restore nobody is sent anywhere where a node reports a higher number than the
// channel has. A person resumes, and the number goes on above that.
func TestBackupReleases(t *testing.T) {
	t.Parallel()
	agents := t.TempDir()
	program, err := os.ReadFile(agentBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(agents, "linux-"+runtime.GOARCH)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "muster-agent"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	h := agentsHouse(t, agents)
	h.agentWith(nil, h.installed("desk", program), "desk", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("desk") })
	file := filepath.Join(t.TempDir(), "backup.tar")
	h.muster("backup", file)
	digest := h.releases()[0].Digest
	h.renumber(digest)
	h.renumber(digest)
	h.tellFloor("desk")
	before := h.channel().Sequence
	h.until("the node has obeyed the last one", func() bool { return h.obeyed("desk") == before })
	h.gateway.stop()
	if err := os.RemoveAll(filepath.Join(h.data, "registry")); err != nil {
		t.Fatal(err)
	}
	h.muster("restore", file, "--force")
	h.open()
	h.until("the channel is behind", func() bool { return h.channel().State == "behind" })
	if c := h.channel(); c.Sequence >= before {
		t.Errorf("the gateway has moved by itself: %+v", c)
	}
	h.muster("release", "resume", "--channel", "stable")
	if c := h.channel(); c.Sequence <= before || c.State == "behind" {
		t.Errorf("resumed: %+v", c)
	}
	h.until("the node has obeyed that", func() bool { return h.obeyed("desk") == h.channel().Sequence })
	if all := h.releases(); len(all) != 1 || all[0].Digest != digest {
		t.Errorf("releases: %+v", all)
	}
}

// renumber gives the channel's pointer a higher number: a pin takes one for its node, and the channel the next one afterwards.
func (h *house) renumber(digest string) {
	h.t.Helper()
	h.muster("release", "pin", "desk", "--digest", digest, "--yes")
	h.muster("release", "unpin", "desk", "--yes")
}

// updates is what an agent keeps of its channel.
func (h *house) updates(agent string) (file struct {
	Channel string
	Floors  map[string]int64
}) {
	raw, err := os.ReadFile(filepath.Join(h.data, "agent-"+agent, "update.json"))
	if err == nil {
		err = json.Unmarshal(raw, &file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Fatal(err)
	}
	return file
}

// obeyed is the highest number of the channel stable that an agent has obeyed.
func (h *house) obeyed(agent string) int64 { return h.updates(agent).Floors["stable"] }

// tellFloor has a node leave its channel and come back, and so learn the channel's number: it runs the channel's release already.
func (h *house) tellFloor(name string) {
	h.t.Helper()
	h.muster("node", "label", name, "channel=other")
	h.until(name+" has left the channel", func() bool { return h.told(name) == "other" })
	h.muster("node", "label", name, "channel-")
	h.until(name+" is back on its channel", func() bool { return h.told(name) == "stable" })
}

// told is the channel that an agent follows, as its file says.
func (h *house) told(agent string) string { return h.updates(agent).Channel }

// installed puts a program into an agent's folder as an installed one lies there: only that one updates itself.
func (h *house) installed(agent string, program []byte) string {
	h.t.Helper()
	sum := sha256.Sum256(program)
	base := filepath.Join(h.data, "agent-"+agent)
	version := filepath.Join("versions", hex.EncodeToString(sum[:]))
	err := errors.Join(os.MkdirAll(filepath.Join(base, version), 0o700),
		os.WriteFile(filepath.Join(base, version, "muster-agent"), program, 0o700),
		os.Symlink(version, filepath.Join(base, "current")), os.Symlink(version, filepath.Join(base, "good")))
	if err != nil {
		h.t.Fatal(err)
	}
	return filepath.Join(base, "current", "muster-agent")
}
