package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSession is the README's first screen: a token, an agent, its GPUs in the list, and what the operator does next.
func TestSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token := h.token("--tenant", "platform", "--label", "pool=rental")
	agent := h.agent("vast-h100-39467543", token, "--label", "tier=sovereign", "--label", "pool=mine", "--provider", "vast_ai",
		"--instance-id", "39467543", "--nvidia-smi", smi(t, 2))
	h.muster("node", "wait", "vast-h100-39467543", "--timeout", "30s")
	h.until("two GPUs are seen", func() bool {
		n, _ := h.node("vast-h100-39467543")
		return n.State == "active" && n.Hardware != nil && len(n.Hardware.GPUs) == 2
	})
	n, _ := h.node("vast-h100-39467543")
	if n.Tenant != "platform" || n.Provider != "vast_ai" || n.InstanceID != "39467543" {
		t.Errorf("node: %+v", n)
	}
	if n.Labels["tier"] != "sovereign" || n.Labels["pool"] != "rental" {
		t.Errorf("labels: %v; the credential's must win over the agent's", n.Labels)
	}
	if g := n.Hardware.GPUs[0]; n.Hardware.Probe.State != "ok" || g.MemoryUsedMiB == nil || *g.MemoryUsedMiB != 39233 {
		t.Errorf("hardware: %+v", n.Hardware)
	}
	if got := h.nodes("-l", "tier=sovereign,tenant=platform"); len(got) != 1 {
		t.Errorf("by selector: %d nodes, want 1", len(got))
	}
	if got := h.nodes("-l", "tier=spot"); len(got) != 0 {
		t.Errorf("by a selector that fits nothing: %d nodes", len(got))
	}
	for verb, state := range map[string]string{"drain": "drained"} {
		h.muster("node", verb, "vast-h100-39467543")
		if n, _ := h.node("vast-h100-39467543"); n.State != state {
			t.Errorf("after %s: state %s", verb, n.State)
		}
	}
	h.muster("node", "resume", "vast-h100-39467543")
	table := h.muster("node", "ls")
	for _, want := range []string{"2x H100 80GB HBM3", "78466/163118 MiB", "99%", "active", "online", "1 node: 1 online, 0 stale"} {
		if !strings.Contains(table, want) {
			t.Errorf("node ls lacks %q:\n%s", want, table)
		}
	}
	agent.stop()
	h.until("a stopped agent's node is stale", func() bool { return len(h.nodes("--status", "stale")) == 1 })
	if events := h.muster("events"); !strings.Contains(events, "node.enrolled") || strings.Contains(events, token) {
		t.Errorf("events:\n%s", events)
	}
}

// TestRestart: the agent comes back by itself after the gateway was killed, and the nodes are as they were meanwhile.
func TestRestart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("desk", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("desk") })
	h.until("the heartbeat is in the database", func() bool { return strings.Contains(h.muster("node", "show", "desk"), "online") })
	before, _ := h.node("desk")
	h.gateway.kill()
	h.open()
	after, ok := h.node("desk")
	if !ok || after.ID != before.ID || after.Certificate.Fingerprint != before.Certificate.Fingerprint {
		t.Fatalf("after the restart: %+v, before: %+v", after, before)
	}
	h.until("heard again", func() bool {
		n, _ := h.node("desk")
		return n.Status == "online" && n.LastSeen.After(*before.LastSeen)
	})
}

// TestRetry: an agent that is started again with its used token goes on with its identity; another machine does not get in.
func TestRetry(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token := h.token()
	first := h.agent("one", token, "--no-gpu")
	h.until("online", func() bool { return h.online("one") })
	first.kill()
	h.agent("one", token, "--no-gpu")
	h.until("online again", func() bool { return h.online("one") })
	other := h.agent("two", token, "--no-gpu")
	<-other.done
	if code := other.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(other.text(), "every use of this token is taken") {
		t.Errorf("a second machine with a used token: exit %d\n%s", code, other.text())
	}
	if got := h.nodes("--all"); len(got) != 1 {
		t.Errorf("%d nodes, want 1", len(got))
	}
	if events := h.muster("events", "-o", "json"); !strings.Contains(events, `"token_used"`) || !strings.Contains(events, "127.0.0.1") {
		t.Errorf("the refusal is no event:\n%s", events)
	}
}

// TestProxy: behind something that ends TLS the agent signs, and works; when the proxy changes what is signed, or answers
// itself, nothing is believed.
func TestProxy(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1")
	line := h.gateway.await("without TLS: ")
	origin, err := url.Parse("http://" + strings.TrimPrefix(line, "without TLS: "))
	if err != nil {
		t.Fatal(err)
	}
	var mode sync.Map
	forward := httputil.NewSingleHostReverseProxy(origin)
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if html, _ := mode.Load("html"); html == true {
			w.Header().Set("cf-mitigated", "challenge")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<html>Just a moment...</html>")
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	roots := filepath.Join(h.data, "proxy.pem")
	writePEM(t, roots, proxy.Certificate().Raw)
	h.url = proxy.URL
	agent := start(t, "agent behind", []string{"SSL_CERT_FILE=" + roots, "MUSTER_TOKEN=" + h.token()}, agentBinary(t),
		"run", "--gateway", proxy.URL, "--name", "behind", "--state", filepath.Join(h.data, "agent-behind"), "--interval", "200ms", "--no-gpu")
	h.until("online through the proxy", func() bool { return h.online("behind") })
	n, _ := h.node("behind")
	mode.Store("html", true)
	h.until("stale while the edge answers", func() bool { n, _ := h.node("behind"); return n.Status == "stale" })
	if !alive(agent) {
		t.Fatalf("an edge's page ended the agent:\n%s", agent.text())
	}
	if _, err := os.Stat(filepath.Join(h.data, "agent-behind", "identity.json")); err != nil {
		t.Errorf("an edge's page cost the identity: %v", err)
	}
	mode.Store("html", false)
	h.until("online after the edge's page", func() bool {
		again, _ := h.node("behind")
		return again.Status == "online" && again.ID == n.ID
	})
}

// TestHundred: 100 agents with one token make one node, and 99 are told that the token is used.
func TestHundred(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	token := h.token()
	var agents []*process
	for i := range 100 {
		agents = append(agents, h.agent(fmt.Sprintf("racer-%d", i), token, "--no-gpu"))
	}
	refused := 0
	h.until("99 refused", func() bool {
		refused = 0
		for _, a := range agents {
			if !alive(a) && strings.Contains(a.text(), "every use of this token is taken") {
				refused++
			}
		}
		return refused == 99
	})
	if nodes := h.nodes("--all"); len(nodes) != 1 {
		t.Errorf("%d nodes, want 1", len(nodes))
	}
}

// TestServeRefuses: a gateway that is started wrongly says what to change.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var out, errs strings.Builder
	code := run(context.Background(), []string{"serve", "--data", h.data, "--listen", "127.0.0.1:0"}, func(string) string { return "" }, nil,
		&out, &errs)
	if code != exitFailed || !strings.Contains(errs.String(), "another gateway serves") {
		t.Errorf("a second gateway on one directory: exit %d, %s", code, errs.String())
	}
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"half a pair", "belong together", []string{"--tls-cert", "x"}},
		{"a wild interval", "between 5s and 10m", []string{"--heartbeat-interval", "1s"}},
		{"no port", "host:port", []string{"--listen", "127.0.0.1"}},
		{"an argument", "takes no argument", []string{"now"}},
		{"admin without a proxy", "needs a --trusted-proxy", []string{"--admin-behind-proxy"}},
		{"a proxy's header without a proxy", "needs a --trusted-proxy", []string{"--client-address-header", "X-Real-IP"}},
		{"an unknown flag", "there is no flag --nope", []string{"--nope"}},
		{"no directory", "name the directory with --data DIR", []string{"--data", ""}},
		{"no port", "a port is a number from 1 to 65535", []string{"--public-url", "https://gw.example:65536"}},
		{"port zero", "a port is a number from 1 to 65535", []string{"--public-url", "https://gw.example:0"}},
		{"nobody answers without TLS", "or add --plain-listen :80", []string{"--public-url", "http://gw.example"}},
		{"nor on that port", "or add --plain-listen :8080", []string{"--public-url", "http://gw.example:8080/"}},
	} {
		errs.Reset()
		code := run(context.Background(), append([]string{"serve", "--data", t.TempDir()}, c.args...), func(string) string { return "" }, nil,
			&out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %q; want %q", c.name, code, errs.String(), c.want)
		}
	}
}

// TestProbeTruths: the agent is alive whatever nvidia-smi does, and a node whose GPUs cannot be seen is unavailable until
// they can.
func TestProbeTruths(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	control := filepath.Join(t.TempDir(), "mode")
	script := filepath.Join(t.TempDir(), "nvidia-smi")
	body := "#!/bin/sh\n[ -e " + control + " ] && { echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18; }\nexec " +
		smi(t, 2) + " \"$@\"\n"
	if err := os.WriteFile(script, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	h.agent("truths", h.token("--gpus", "2"), "--nvidia-smi", script)
	h.until("active, and both GPUs were looked at", func() bool { // else there are no last rows
		n, _ := h.node("truths")
		return h.online("truths") && n.Hardware != nil && len(n.Hardware.GPUs) == 2
	})
	if err := os.WriteFile(control, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.until("unavailable, yet online and with its last rows", func() bool {
		n, _ := h.node("truths")
		apart := n.State == "unavailable" && n.Status == "online" && n.Hardware != nil
		return apart && n.Hardware.Probe.State == "failed" && len(n.Hardware.GPUs) == 2
	})
	if err := os.Remove(control); err != nil {
		t.Fatal(err)
	}
	h.within(time.Minute+patience, "active again by itself, after it was well for a minute", func() bool { return h.online("truths") })
}

// TestBringBack: the refusal of a retired node says that the machine enrols again when it is started with a new token. So it does.
func TestBringBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first := h.agent("back", h.token(), "--no-gpu")
	h.until("online", func() bool { return h.online("back") })
	before, _ := h.node("back")
	h.muster("node", "retire", "back", "--yes")
	first.await("the gateway refuses this node")
	first.stop()
	h.agent("back", h.token(), "--no-gpu")
	h.until("online under a new id", func() bool {
		n, ok := h.node("back")
		return ok && n.ID != before.ID && n.Status == "online"
	})
}
