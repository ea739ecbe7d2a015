package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	keys "muster/gateway/api/trust"
)

// ca is what ca show says.
func (h *house) ca() keys.CA {
	h.t.Helper()
	var ca keys.CA
	if err := json.Unmarshal([]byte(h.muster("ca", "show", "-o", "json")), &ca); err != nil {
		h.t.Fatal(err)
	}
	return ca
}

// plain is the address of the listener without TLS, which stays the same from now on.
func (h *house) plain() string {
	h.t.Helper()
	address := strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
	h.args[slices.Index(h.args, "--plain-listen")+1] = address
	return "http://" + address
}

// pinned is the trust set that an agent goes by, as its file says.
func (h *house) pinned(agent string) wire.TrustSet {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.data, "agent-"+agent, "identity.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	var file struct {
		Gateway struct {
			Roots      string
			AnswerKeys []string `json:"answer_keys"`
			Trust      sign.Envelope
		}
	}
	var set wire.TrustSet
	if err := json.Unmarshal(raw, &file); err != nil {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal(file.Gateway.Trust.Payload, &set); err != nil {
		h.t.Fatal(err)
	}
	if file.Gateway.Roots != set.Roots || strings.Join(file.Gateway.AnswerKeys, " ") != strings.Join(set.AnswerKeys, " ") {
		h.t.Errorf("%s goes by other roots or keys than its set names", agent)
	}
	return set
}

// phase is what an agent says of itself. The gateway's view alone does not tell whether the agent believes its answers.
func (h *house) phase(agent string) string {
	var status struct{ Phase string }
	raw, err := os.ReadFile(filepath.Join(h.data, "agent-"+agent, "status.json"))
	if err == nil {
		err = json.Unmarshal(raw, &status)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return status.Phase
}

// beats waits for a heartbeat that comes after this call.
func (h *house) beats(name string) {
	h.t.Helper()
	before, _ := h.node(name)
	h.until(name+" is heard from again", func() bool {
		n, ok := h.node(name)
		return ok && n.Status == "online" && n.LastSeen != nil && (before.LastSeen == nil || n.LastSeen.After(*before.LastSeen))
	})
}

// rotateRoot takes the whole fleet from the newest root to the next one.
func (h *house) rotateRoot() {
	h.t.Helper()
	old := h.ca().Roots
	h.muster("ca", "rotate-root")
	h.muster("ca", "intermediate")
	h.muster("ca", "drop-root", old[len(old)-1].Pin, "--yes")
}

// TestSleepThroughRotations: answer key and root are rotated twice, and the ones before are not believed any more. Agents that were
// awake hear of it. Agents that slept find out by themselves. Both are shown directly and behind something that ends TLS.
func TestSleepThroughRotations(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--cert-ttl", "1h")
	tls := h.url
	plain := h.plain()
	names := []string{"awake-tls", "awake-plain", "asleep-tls", "asleep-plain"}
	agents := map[string]*process{}
	pin := h.ca().Roots[0].Pin // in a unit or an entry point it stays what it was
	begin := func(name, token string) {
		h.url = tls
		if strings.HasSuffix(name, "plain") {
			h.url = plain
		}
		agents[name] = h.agent(name, token, "--no-gpu", "--root-pin", pin)
	}
	for _, name := range names {
		begin(name, h.token())
		h.until("online", func() bool { return h.online(name) })
	}
	agents["asleep-tls"].stop()
	agents["asleep-plain"].stop()
	for range 2 {
		h.muster("key", "rotate", "--answer", "--now")
		h.beats("awake-plain")
		h.rotateRoot()
		h.beats("awake-tls")
		h.beats("awake-plain")
	}
	ca := h.ca()
	if ca.TrustNumber != 7 || len(ca.Roots) != 1 || ca.Roots[0].Pin == pin {
		t.Errorf("after two rotations: %+v", ca)
	}
	begin("asleep-tls", "")
	begin("asleep-plain", "")
	for _, name := range names {
		h.beats(name)
		h.until(name+" goes by the newest set", func() bool { return h.pinned(name).Number == 7 && h.phase(name) == "online" })
		if n := strings.Count(agents[name].text(), "level=ERROR"); n > 0 {
			t.Errorf("%s:\n%s", name, agents[name].text())
		}
	}
	if events := h.muster("events", "--security"); strings.Count(events, "key.rotated") != 2 || strings.Count(events, "ca.root_dropped") != 2 {
		t.Errorf("events:\n%s", events)
	}
	agents["asleep-tls"].stop()
	h.muster("key", "rotate", "--answer", "--now")
	h.rotateRoot()
	leave := start(t, "leave", nil, agentBinary(t), "leave", "--state", filepath.Join(h.data, "agent-asleep-tls"))
	<-leave.done
	if !strings.Contains(leave.text(), "is retired") {
		t.Errorf("an agent that leaves after it slept:\n%s", leave.text())
	}
}

// TestEitherRootPin: while two roots are trusted, a machine with the pin of either can enrol by PSK.
func TestEitherRootPin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(h.muster("psk", "set", "--generate", "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	h.muster("ca", "rotate-root")
	h.muster("ca", "intermediate")
	roots := h.ca().Roots
	if len(roots) != 2 || !roots[0].Signing || !roots[1].Signing {
		t.Fatalf("roots: %+v", roots)
	}
	for name, pin := range map[string]string{"old-pin": roots[0].Pin, "new-pin": roots[1].Pin} {
		h.agent(name, made.Secret, "--no-gpu", "--root-pin", pin)
		h.until(name+" is online", func() bool { return h.online(name) })
	}
}

// TestIntermediateSwap: the intermediate changes again and again under agents that beat and renew, and none of them notices.
func TestIntermediateSwap(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--cert-ttl", "6s")
	agents := map[string]*process{}
	for _, name := range []string{"one", "two"} {
		agents[name] = h.agent(name, h.token(), "--no-gpu")
		h.until("online", func() bool { return h.online(name) })
	}
	seen := map[string]bool{h.ca().Intermediate.Fingerprint: true}
	first, _ := h.node("one")
	for range 5 {
		h.muster("ca", "intermediate")
		seen[h.ca().Intermediate.Fingerprint] = true
		h.beats("one")
		h.beats("two")
	}
	if len(seen) != 6 {
		t.Errorf("%d intermediates, want 6", len(seen))
	}
	h.until("a renewal under a later intermediate", func() bool {
		n, _ := h.node("one")
		return n.Certificate.Generation > first.Certificate.Generation
	})
	h.beats("one")
	for name, agent := range agents {
		if text := agent.text(); strings.Contains(text, "not accepted") || strings.Contains(text, "not renewed") {
			t.Errorf("%s noticed:\n%s", name, text)
		}
	}
}

// TestRootOffline: the root's key is out of the gateway from the beginning, or from later on, and the gateway works.
func TestRootOffline(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("node", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("node") })
	if code, _, errs := h.try("ca", "init", "--root-out", filepath.Join(t.TempDir(), "r")); code != exitFailed ||
		!strings.Contains(errs, "has to be stopped") {
		t.Errorf("on a running gateway: exit %d, %s", code, errs)
	}
	h.gateway.stop()
	root := filepath.Join(t.TempDir(), "root")
	next := filepath.Join(t.TempDir(), "next")
	h.muster("ca", "init", "--root-out", root)
	if code, _, errs := h.try("ca", "init", "--root-out", filepath.Join(t.TempDir(), "again")); code != exitFailed ||
		!strings.Contains(errs, "already") {
		t.Errorf("a second time: exit %d, %s", code, errs)
	}
	info, err := os.Stat(filepath.Join(root, "root.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the root's key: %v, %v", info, err)
	}
	h.open()
	h.beats("node")
	if ca := h.ca(); ca.Roots[0].Online || !ca.Roots[0].Signing || ca.Intermediate.Online {
		t.Errorf("ca: %+v", ca)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--root DIR", []string{"ca", "intermediate"}},
		{"--root-out DIR", []string{"ca", "rotate-root"}},
		{"root.key", []string{"ca", "intermediate", "--root", t.TempDir()}},
	} {
		if code, _, errs := h.try(c.args...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, %s", c.args, code, errs)
		}
	}
	before := h.ca()
	h.muster("ca", "intermediate", "--root", root)
	if after := h.ca(); after.Intermediate.Fingerprint == before.Intermediate.Fingerprint || after.Roots[0].Online {
		t.Errorf("the intermediate is the one before, or the root's key is back: %+v", after)
	}
	h.beats("node")
	h.muster("ca", "rotate-root", "--root-out", next)
	if code, _, errs := h.try("ca", "drop-root", before.Roots[0].Pin, "--yes"); code == 0 || !strings.Contains(errs, "under this root alone") {
		t.Errorf("the root in use was dropped: %d %s", code, errs)
	}
	h.muster("ca", "intermediate", "--root", root, "--root", next)
	h.muster("ca", "drop-root", before.Roots[0].Pin[:len("sha256:")+8], "--yes")
	h.beats("node")
	h.gateway.stop()
	h.open()
	h.beats("node")
	if ca := h.ca(); len(ca.Roots) != 1 || ca.Roots[0].Pin == before.Roots[0].Pin || ca.Roots[0].Online {
		t.Errorf("ca: %+v", ca)
	}
}

// TestTrustKeyOffline: with the trust key kept elsewhere, what nodes believe changes only with its signature, which the command makes.
func TestTrustKeyOffline(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("node", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("node") })
	h.gateway.stop()
	file := filepath.Join(t.TempDir(), "trust.key")
	h.muster("key", "export", "--trust", file)
	if code, _, errs := h.try("key", "export", "--trust", file+"2"); code == 0 || !strings.Contains(errs, "already") {
		t.Errorf("exported twice: %d %s", code, errs)
	}
	h.open()
	number := h.ca().TrustNumber
	if code, _, errs := h.try("key", "rotate", "--answer"); code != exitUsage || !strings.Contains(errs, "--trust-key FILE") {
		t.Errorf("without the key: %d %s", code, errs)
	}
	if code, _, errs := h.try("key", "rotate", "--answer", "--trust-key", filepath.Join(h.data, "master.key")); code != exitFailed ||
		!strings.Contains(errs, "does not hold a trust key") {
		t.Errorf("with another file: %d %s", code, errs)
	}
	if got := h.ca().TrustNumber; got != number {
		t.Errorf("set %d was published without a signature", got)
	}
	h.muster("key", "rotate", "--answer", "--now", "--trust-key", file)
	h.muster("ca", "rotate-root", "--trust-key", file)
	h.until("the node goes by the newest set", func() bool { return h.pinned("node").Number == number+2 })
	h.gateway.stop()
	h.muster("key", "import", "--trust", file)
	h.open()
	h.muster("key", "rotate", "--trust")
	h.muster("key", "rotate", "--task")
	h.until("the node follows to the next trust key", func() bool { return h.pinned("node").Number == number+4 })
	if list := h.muster("key", "ls"); strings.Count(list, "task") != 2 || !strings.Contains(list, "trust") {
		t.Errorf("key ls:\n%s", list)
	}
}
