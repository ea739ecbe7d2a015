package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"muster/gateway/api"
)

// TestRetiredAtOnce: from the answer on, a node that is retired costs nothing and belongs to no channel; so it is with its price.
func TestRetiredAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	agent := h.agent("gpu-1", h.token())
	h.until("the node is online", func() bool { return h.online("gpu-1") })
	agent.stop()
	h.muster("node", "label", "gpu-1", "price_per_hour=4.20")
	if out := h.muster("ls"); !strings.Contains(out, " · 4.20 an hour") {
		t.Errorf("just after it was priced:\n%s", out)
	}
	h.muster("node", "retire", "gpu-1", "--yes")
	if out := h.muster("ls", "--all"); !strings.Contains(out, "1 retired") || strings.Contains(out, "an hour") {
		t.Errorf("just after it was retired:\n%s", out)
	}
	if out := h.muster("status"); strings.Contains(out, "1 active") || strings.Contains(out, "4.20") {
		t.Errorf("just after it was retired:\n%s", out)
	}
	var n api.Node
	if err := json.Unmarshal([]byte(h.muster("node", "show", "gpu-1", "-o", "json")), &n); err != nil || n.Update != nil {
		t.Errorf("it still belongs to a channel: %+v, %v", n.Update, err)
	}
}

// TestStatusAndDoctor: both say of a real gateway what is so, over its socket and by its URL with an account of few scopes.
func TestStatusAndDoctor(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("gpu-1", h.token())
	h.until("the node is online", func() bool { return h.online("gpu-1") })
	h.until("the status counts it", func() bool { return strings.Contains(h.muster("status"), "fleet    1 node: 1 online; 1 active\n") })
	if out := h.muster("status"); !strings.Contains(out, ", ready\n") || !strings.Contains(out, "wrong    nothing is found\n") {
		t.Errorf("status:\n%s", out)
	}
	outcomes := func(args ...string) map[string]string {
		var r api.DoctorReport
		code, out, errs := h.try(append([]string{"doctor", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil || code > 1 {
			t.Fatalf("doctor %q: code %d, %v\n%s%s", args, code, err, out, errs)
		}
		by := map[string]string{}
		for _, c := range r.Checks {
			by[c.Check] = c.Outcome + " " + c.Seen
		}
		return by
	}
	expect := func(got map[string]string, want map[string]string) {
		t.Helper()
		for check, begins := range want {
			if !strings.HasPrefix(got[check], begins) {
				t.Errorf("%s: %q, want %q", check, got[check], begins)
			}
		}
	}
	expect(outcomes(), map[string]string{"gateway": "ok", "root": "ok good for ", "intermediate": "ok good for ",
		"serving certificate": "ok good for ", "backup": "warn none was ever made",
		"public URL": "ok " + h.url + " leads to this gateway: its certificate chains to the gateway's root",
		"versions":   "ok", "master key": "warn it lies beside"})
	h.muster("backup", h.data+"/copy.tar")
	expect(outcomes(), map[string]string{"backup": "ok the newest was begun "})

	made := struct{ Token string }{}
	if err := json.Unmarshal([]byte(h.muster("account", "create", "few", "--scope", "alerts:read", "-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"MUSTER_URL": h.url, "MUSTER_API_TOKEN": made.Token, "MUSTER_ROOT_PIN": h.ca().Roots[0].Pin}
	far := func(args ...string) string {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, func(name string) string { return env[name] }, strings.NewReader(""), &out, &errs); code != exitDone {
			t.Fatalf("muster %q: code %d\n%s%s", args, code, out.String(), errs.String())
		}
		return out.String()
	}
	out := far("status")
	for _, want := range []string{", ready\n", "fleet     not shown: ", "findings  not shown: ", "nodes:read"} {
		if !strings.Contains(out, want) {
			t.Errorf("status by URL has no %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "GPUs") || strings.Contains(out, "alerts    not shown") {
		t.Errorf("status by URL:\n%s", out)
	}
	out = far("doctor")
	for _, want := range []string{"ok       clock", "unknown  disk", "unknown  backup", "unknown  root", "unknown  agents",
		"unknown  master key", "ok       public URL", "nodes:read"} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor by URL has no %q:\n%s", want, out)
		}
	}
}
