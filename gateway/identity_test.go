package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shownNode is what node show says of an identity.
type shownNode struct {
	ID, Name, State string
	Reasons         []string `json:"state_reasons"`
	Recoveries      int
	Certificate     struct {
		Fingerprint string
		Generation  int
	}
	Certificates []struct{ Fingerprint, Status string }
	Runs         []struct {
		RunID string `json:"run_id"`
	}
}

func (h *house) shown(name string) shownNode {
	h.t.Helper()
	var n shownNode
	if err := json.Unmarshal([]byte(h.muster("node", "show", name, "-o", "json")), &n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *house) stateOf(name string) string { return filepath.Join(h.data, "agent-"+name) }

// copyState copies an agent's identity as a copied disk would.
func (h *house) copyState(from, to string) {
	h.t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.stateOf(from), "identity.json"))
	if err == nil {
		err = os.MkdirAll(h.stateOf(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(h.stateOf(to), "identity.json"), raw, 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestCopiedState: two machines with one state directory close that node, and that node alone, until the operator chooses.
func TestCopiedState(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "--plain-listen", "127.0.0.1:0")
			if plain {
				h.url = "http://" + strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
			}
			one := h.agent("one", h.token(), "--no-gpu")
			h.agent("other", h.token(), "--no-gpu")
			h.until("both online", func() bool { return h.online("one") && h.online("other") })
			h.copyState("one", "copy")
			began := time.Now()
			clone := h.agent("copy", "", "--no-gpu")
			h.until("the node is closed", func() bool { n := h.shown("one"); return strings.Join(n.Reasons, ",") == "identity_conflict" })
			t.Logf("seen after %s, with a heartbeat every 200 ms", time.Since(began).Round(100*time.Millisecond))
			one.await("two machines use the identity of this node")
			n := h.shown("one")
			if n.State != "unavailable" || len(n.Runs) != 2 || len(n.Certificates) != 1 || !h.online("other") {
				t.Errorf("got %+v", n)
			}
			if text := h.muster("node", "show", "one"); strings.Count(text, "\n  run ") != 2 || !strings.Contains(text, "127.0.0.1") {
				t.Errorf("node show does not list the two:\n%s", text)
			}
			if code, _, errs := h.try("node", "allow-recovery", "one"); code != 1 || !strings.Contains(errs, "--fingerprint F") {
				t.Errorf("without saying which: %d %s", code, errs)
			}
			clone.kill()
			h.muster("node", "allow-recovery", "one", "--fingerprint", n.Certificate.Fingerprint[:16])
			h.until("the one that stays is at work again", func() bool { return h.online("one") })
			if security := h.muster("events", "--security"); !strings.Contains(security, "identity.conflict") ||
				!strings.Contains(security, "node.recovery_allowed") {
				t.Errorf("events:\n%s", security)
			}
		})
	}
}

// TestFiveFromOneSnapshot: boxes that find themselves under another provider instance enrol afresh.
func TestFiveFromOneSnapshot(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("golden", h.token(), "--no-gpu", "--provider", "vast_ai", "--instance-id", "1000")
	h.until("online", func() bool { return h.online("golden") })
	token := h.token("--uses", "5")
	for i := range 5 {
		name := fmt.Sprintf("vast-%d", i)
		h.copyState("golden", name)
		h.agent(name, token, "--no-gpu", "--provider", "vast_ai", "--instance-id", fmt.Sprint(2000+i))
	}
	h.until("six nodes, each its own", func() bool { return len(h.nodes("--status", "online", "--state", "active")) == 6 })
	for _, n := range h.nodes() {
		if got := h.shown(n.Name); len(got.Reasons) != 0 || len(got.Runs) != 1 {
			t.Errorf("%+v", got)
		}
	}
	stranger := h.agent("vast-9", "", "--no-gpu", "--provider", "vast_ai", "--instance-id", "3000")
	<-stranger.done
	h.copyState("golden", "vast-10")
	homeless := h.agent("vast-10", "", "--no-gpu", "--provider", "vast_ai", "--instance-id", "3001")
	<-homeless.done
	if !strings.Contains(homeless.text(), "belongs to instance 1000 and this is 3001: it is not used; set MUSTER_TOKEN") {
		t.Errorf("a copy without a credential says:\n%s", homeless.text())
	}
}

// TestReinstalled: a machine that lost its disk gets its name back when the operator lets it, and is told how.
func TestReinstalled(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first := h.agent("desk", h.token(), "--no-gpu", "--interval", "30s") // a stale node's name would be free for a new token
	h.until("online", func() bool { return h.online("desk") })
	before, _ := h.node("desk")
	first.kill()
	if err := os.RemoveAll(h.stateOf("desk")); err != nil {
		t.Fatal(err)
	}
	token := h.token()
	refused := h.agent("desk", token, "--no-gpu")
	<-refused.done
	if !strings.Contains(refused.text(), "name_in_use") || !strings.Contains(refused.text(), "muster node allow-recovery desk") {
		t.Errorf("the refusal says:\n%s", refused.text())
	}
	h.muster("node", "allow-recovery", "desk")
	h.agent("desk", token, "--no-gpu", "--interval", "30s")
	h.until("online again with another certificate", func() bool {
		n, _ := h.node("desk")
		return h.online("desk") && n.Certificate.Fingerprint != before.Certificate.Fingerprint
	})
	after, _ := h.node("desk")
	if len(h.nodes("--all")) != 1 || after.ID != before.ID {
		t.Errorf("got %+v, want the node that was there", after)
	}
	box := h.agent("desk2", h.token(), "--no-gpu", "--name", "desk")
	<-box.done
	if !strings.Contains(box.text(), "name_in_use") || !h.online("desk") {
		t.Errorf("another box with the same hostname:\n%s", box.text())
	}
}

// TestBanned: a ban works at once, also on an open connection. The agent does not end, does not ask all the time, and keeps its identity.
func TestBanned(t *testing.T) {
	t.Parallel()
	for verb, code := range map[string]string{"ban": "banned", "retire": "retired"} {
		t.Run(verb, func(t *testing.T) {
			h := newHouse(t)
			agent := h.agent("bad", h.token(), "--no-gpu")
			h.until("online over mTLS", func() bool { return h.online("bad") && strings.Contains(h.agentStatus("bad"), `"mtls"`) })
			h.muster("node", verb, "bad", "--yes")
			last := h.shown("bad").ID
			h.until("the agent says so", func() bool {
				s := h.agentStatus("bad")
				told := strings.Contains(agent.text(), "code="+code) // the log has it a moment after the status
				return strings.Contains(s, `"refused"`) && strings.Contains(s, code) && told
			})
			if !alive(agent) || strings.Count(agent.text(), "level=ERROR") != 1 {
				t.Errorf("the log says:\n%s", agent.text())
			}
			if _, err := os.Stat(filepath.Join(h.stateOf("bad"), "identity.json")); err != nil {
				t.Errorf("the identity was given up: %v", err)
			}
			if n := h.shown(last); n.State != "retired" {
				t.Errorf("state %s", n.State)
			}
		})
	}
}

func (h *house) agentStatus(name string) string {
	raw, _ := os.ReadFile(filepath.Join(h.stateOf(name), "status.json"))
	return string(raw)
}

// TestExpiredWhileOff: a certificate that ended while the machine was off renews itself within the grace; the node says why
// it is not available until then.
func TestExpiredWhileOff(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--cert-ttl", "5s")
			if plain {
				h.url = "http://" + strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
			}
			agent := h.agent("desk", h.token(), "--no-gpu")
			h.until("online", func() bool { return h.online("desk") })
			agent.kill()
			h.until("the certificate has expired", func() bool {
				n := h.shown("desk")
				return n.State == "unavailable" && strings.Join(n.Reasons, ",") == "certificate_expired"
			})
			if events := h.muster("events"); !strings.Contains(events, "renewal.overdue") {
				t.Errorf("events:\n%s", events)
			}
			h.agent("desk", "", "--no-gpu")
			h.until("cured", func() bool { n := h.shown("desk"); return h.online("desk") && len(n.Reasons) == 0 && n.Recoveries > 0 })
		})
	}
}

// TestExpiredForGood: without a grace the operator's word alone brings the node back. Nobody has to go to the machine.
func TestExpiredForGood(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--cert-ttl", "5s", "--renew-grace", "0s")
	agent := h.agent("desk", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("desk") })
	agent.kill()
	h.until("the certificate has expired", func() bool { return h.shown("desk").State == "unavailable" })
	agent = h.agent("desk", "", "--no-gpu")
	h.until("the agent says so", func() bool {
		s := h.agentStatus("desk")
		return strings.Contains(s, `"refused"`) && strings.Contains(s, "muster node allow-recovery desk")
	})
	agent.kill() // it would ask again in five to ten minutes
	h.muster("node", "allow-recovery", "desk")
	h.agent("desk", "", "--no-gpu")
	h.until("back", func() bool { return h.online("desk") && h.shown("desk").Recoveries == 1 })
}

// TestRenewalSurvivesKills kills gateway and agents at random moments while certificates that live for seconds are renewed
// all the time. In the end no node is lost, and none was taken for a copy.
func TestRenewalSurvivesKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	h := newHouse(t, "--cert-ttl", "6s")
	names := []string{"one", "two", "three"}
	agents := map[string]*process{}
	for _, name := range names {
		agents[name] = h.agent(name, h.token(), "--no-gpu")
	}
	h.until("all online", func() bool { return h.online("one") && h.online("two") && h.online("three") })
	kills := 0
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); kills++ {
		<-time.After(time.Duration(100+rand.IntN(700)) * time.Millisecond)
		if rand.IntN(3) == 0 {
			h.gateway.kill()
			h.open()
			continue
		}
		name := names[rand.IntN(len(names))]
		agents[name].kill()
		agents[name] = h.agent(name, "", "--no-gpu")
	}
	before := map[string]int{}
	for _, name := range names {
		before[name] = h.shown(name).Certificate.Generation
	}
	h.until("all online and renewed again", func() bool {
		for _, name := range names {
			if !h.online(name) || h.shown(name).Certificate.Generation <= before[name] {
				return false
			}
		}
		return true
	})
	if events := h.muster("events", "--security", "--limit", "1000"); strings.Contains(events, "identity.") {
		t.Errorf("a copy was seen where there is none:\n%s", events)
	}
	for _, name := range names {
		n := h.shown(name)
		t.Logf("%s: generation %d after %d kills, %d recoveries", name, n.Certificate.Generation, kills, n.Recoveries)
		if n.State != "active" || len(n.Reasons) != 0 || n.Certificate.Generation < 3 {
			t.Errorf("%+v", n)
		}
	}
}
