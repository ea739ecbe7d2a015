package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

// withScripts lets a house render bootstrap scripts.
func withScripts(t *testing.T) *house {
	h := newHouse(t)
	h.scripts()
	return h
}

// scripts has a house render them.
func (h *house) scripts() {
	h.api.Bootstrap = bootstrap.New(bootstrap.Config{Store: h.store, Now: func() time.Time { return h.now },
		Site: func() (bootstrap.Site, error) {
			return bootstrap.Site{NodeURL: "https://gw:7443", FirstHop: "https://gw:7443", FirstHopTrust: bootstrap.SystemTrust,
				Agents: []wire.Platform{{OS: "linux", Arch: "amd64", SHA256: "ab", Path: "/agent/linux/amd64"}}}, nil
		}})
	h.dir = h.listen()
}

func TestNodeCreateAndBootstrap(t *testing.T) {
	h := withScripts(t)
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"node create gpu-7 --tenant platform --label rack=7 --gpus 8", 0,
			[]string{"node gpu-7, tenant platform, ready\n", "\n  MUSTER_TOKEN=msb_",
				"good until 2026-11-21T10:15:00Z (15m), and for 15m from the first fetch on; it is not shown again\n"}},
		{"node create gpu-8 --mode cloud-init", 0, []string{"The machine's user-data:", "#cloud-config\n",
			"good until 2026-11-22T10:00:00Z (1d)"}},
		{"bootstrap gpu-7", 0, []string{"On the machine, as root:", "MUSTER_TOKEN=msb_"}},
		{"bootstrap gpu-7 --ttl 2h", 0, []string{"(2h)"}},
		{"bootstrap gpu-7 -o command", 0, []string{"curl -qfsSL https://gw:7443/api"}},
		{"bootstrap gpu-7 -o script", 0, []string{"#!/bin/sh\n", "{ main \"$@\"; }\n"}},
		{"bootstrap gpu-7 -o user-data", 0, []string{"#cloud-config\n", "\nwrite_files:\n", "runcmd:\n"}},
		{"bootstrap gpu-7 --mode cloud-init", 0, []string{"#cloud-config\n"}},
		{"bootstrap gpu-7 --mode manual -o user-data", 2, []string{"user-data is for cloud-init"}},
		{"bootstrap gpu-7 -o yaml", 2, []string{"one of table, command, script, user-data, json"}},
		{"bootstrap gpu-7 --mode pxe", 2, []string{"one of manual, cloud-init"}},
		{"bootstrap gpu-7 --ttl 1s", 1, []string{"a bootstrap token cannot live 1s"}},
		{"bootstrap nobody", 1, []string{"no node is called"}},
		{"bootstrap", 2, []string{"muster bootstrap needs NODE"}},
		{"node create gpu-7", 1, []string{"the name gpu-7 is taken"}},
		{"node create gpu-7 --tenant platform", 1, []string{"bootstrap that node: muster bootstrap gpu-7\n"}},
		{"node create gpu-9 -o command", 0, []string{"curl -", "no agent for linux/arm64: such a machine cannot use this script"}},
		{"node create gpu-10 -o script", 0, []string{"#!/bin/sh\n", "{ main \"$@\"; }\n", "NODE_NAME='gpu-10'\n"}},
		{"node create gpu-11 -o user-data", 0, []string{"#cloud-config\n", "\nwrite_files:\n"}},
		{"node create gpu-12 -o user-data --mode manual", 2, []string{"user-data is for cloud-init"}},
		{"node create gpu-12 -o yaml", 2, []string{"one of table, command, script, user-data, json"}},
		{"node create bad/name", 1, []string{"muster node create NAME"}},
		{"bootstrap --help", 0, []string{"the token's outer limit, 1m to 30d (manual: 15m, cloud-init: 1d) [MUSTER_TTL]",
			"command, script, user-data or json; without it a text to read [MUSTER_OUTPUT]",
			"[MUSTER_MODE]", "[MUSTER_AGAIN]"}},
		{"node create --help", 0, []string{"-o user-data what cloud-init takes", "a label of the node; may be repeated"}},
		{"account create --help", 0, []string{"a minute at least (as long as the account that makes it)"}},
		{"node create", 2, []string{"needs NAME"}},
	} {
		code, stdout, stderr := h.muster(strings.Fields(c.args)...)
		said := stdout + stderr
		if strings.HasSuffix(c.args, "--help") { // its lines end where the screen does
			said = strings.Join(strings.Fields(said), " ")
		}
		for _, want := range c.want {
			if code != c.code || !strings.Contains(said, want) {
				t.Errorf("muster %s: exit %d\n%s\nwant %d %q", c.args, code, said, c.code, want)
			}
		}
	}
	for _, args := range [][]string{{"bootstrap", "gpu-7", "-o", "json"}, {"node", "create", "gpu-13", "-o", "json"}} {
		code, stdout, _ := h.muster(args...)
		if code != 0 || !strings.HasPrefix(stdout, `{"hint":"this answer is JSON`) || strings.Count(stdout, "\n") != 1 ||
			strings.ContainsAny(stdout, "$`;|&<>()'!#*?~^") || !strings.Contains(stdout, `-o script to the muster command", "node`) {
			t.Errorf("%q: exit %d\n%.300s", args, code, stdout)
		}
	}
	code, stdout, _ := h.muster("bootstrap", "gpu-7", "-o", "json")
	var made map[string]any
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != 0 || made["script_sha256"] == "" || made["node"] != "gpu-7" {
		t.Errorf("json: exit %d, %v\n%s", code, err, stdout)
	}
	code, stdout, stderr := h.muster("node", "create", "gpu-20", "-o", "script")
	if code != 0 || !strings.HasPrefix(stdout, "#!/bin/sh\n") || !strings.Contains(stderr, "linux/arm64") ||
		strings.Contains(stderr, "linux/amd64") {
		t.Errorf("script: exit %d\n%.200s\n%s", code, stdout, stderr)
	}
	h.env["MUSTER_MODE"] = "cloud-init"
	if code, stdout, _ := h.muster("bootstrap", "gpu-7"); code != 0 || !strings.HasPrefix(stdout, "#cloud-config\n") {
		t.Errorf("with MUSTER_MODE: exit %d\n%s", code, stdout)
	}
	h.env["MUSTER_MODE"] = ""
	h.env["MUSTER_OUTPUT"] = "wide" // for lists
	if code, stdout, _ := h.muster("bootstrap", "gpu-7"); code != 0 || !strings.Contains(stdout, "On the machine") {
		t.Errorf("with MUSTER_OUTPUT: exit %d\n%s", code, stdout)
	}
}

// TestAudit shows what concerns security and leaves the rest out.
func TestAudit(t *testing.T) {
	h := withScripts(t)
	if code, _, errs := h.muster("node", "create", "gpu-7"); code != 0 {
		t.Fatal(errs)
	}
	if err := h.store.AddEvents(t.Context(), store.Event{At: h.now, Kind: "node.cured", NodeName: "gpu-7", Outcome: "ok"}); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"": "bootstrap.created", "--since 1h": "node.created", "--node gpu-7": "bootstrap.created", "-o json": `"kind":"node.created"`,
	} {
		code, stdout, stderr := h.muster(append([]string{"audit"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(stdout, want) || strings.Contains(stdout, "node.cured") {
			t.Errorf("audit %s: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
	for _, command := range []string{"audit", "events"} {
		if code, stdout, errs := h.muster(command, "--node", "gpu-8"); code != 1 || stdout != "" || !strings.Contains(errs, "gpu-8") {
			t.Errorf("%s of no node: exit %d %s%s", command, code, stdout, errs)
		}
	}
	if code, _, errs := h.muster("node", "retire", "gpu-7", "--yes"); code != 0 {
		t.Fatal(errs)
	}
	// It is no error where no event has the kind that is asked for.
	for args, want := range map[string]string{"--node gpu-7": "bootstrap.created", "--node gpu-7 --kind nope": "KIND"} {
		code, stdout, errs := h.muster(append([]string{"audit"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("of a retired node, %s: exit %d %s%s", args, code, stdout, errs)
		}
	}
}
