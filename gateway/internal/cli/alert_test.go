package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
)

// withAlerts is the example with an alert about one node.
func withAlerts(t *testing.T) *house {
	h := example(t)
	sick := &api.NodeRow{ID: "id-gpu-7", Name: "gpu-7", Tenant: "platform", State: wire.StateUnavailable, StateSince: h.now,
		StateReasons: []string{wire.ReasonConflict}}
	var err error
	h.api.Alerts, err = alert.Open(t.Context(), alert.Config{Store: h.store, Ready: func() bool { return true },
		Nodes: func() []*api.NodeRow { return []*api.NodeRow{sick} }, Node: func(string) (*api.NodeRow, bool) { return sick, true },
		Now: func() time.Time { return h.now }})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Alerts.Round()
	h.dir = h.listen()
	return h
}

func TestAlert(t *testing.T) {
	h := withAlerts(t)
	answer := http.StatusOK
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answer) }))
	t.Cleanup(hook.Close)
	file := filepath.Join(t.TempDir(), "url.txt")
	if err := os.WriteFile(file, []byte(hook.URL+"/path-9f8e7d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, _ := h.muster("alert", "ls", "-o", "json")
	id := regexp.MustCompile(`al-[0-9a-f]{16}`).FindString(out)
	all := ""
	for _, c := range []struct {
		args      string
		code      int
		out, says string
	}{
		{"alert ls", 0, "severe    identity_conflict  0s     firing  gpu-7: Two machines use the node's identity, so it gets nothing.\n", ""},
		{"alert ls --cause node_stale", 0, "", "none of the alerts that were asked for fires; "},
		{"alert ls --cause zzz", 1, "", "is no cause of alerts"},
		{"alert ls --all=perhaps", 2, "", ""},
		{"alert show " + id, 0, "gpu-7: Two machines use the node's identity", ""},
		{"alert show " + id + " -o json", 0, `"cause":"identity_conflict"`, ""},
		{"alert show al-none", 1, "", "there is no alert"},
		{"alert silence --node gpu-7", 2, "", "needs a reason"},
		{"alert silence --reason x", 1, "", "names nothing"},
		{"alert silence node_warning", 2, "", "alert silence --cause node_warning"},
		{"alert silence gpu-1", 2, "", "alert silence --node gpu-1, or an alert of"},
		{"alert silence --node gpu-7 --for 4h --reason power", 0, ": node gpu-7, tenant platform, until ", ""},
		{"alert ls", 0, "silenced", ""},
		{"alert show " + id, 0, "by operator:socket: power", ""},
		{"alert silences", 0, "node gpu-7, tenant platform  in 4h", ""},
		{"alert silences -o json", 0, `"reason":"power"`, ""},
		{"alert silence " + id + " --reason fan", 0, ": node gpu-7, cause identity_conflict, tenant platform, until ", ""},
		{"alert unsilence si-none", 1, "", "there is no silence"},
		{"alert receiver add ops --file " + file, 2, "", "what kind of receiver"},
		{"alert receiver add ops --kind webhook --priority none --file " + file, 2, "", ""},
		{"alert receiver add ops --kind webhook --file /none", 1, "", "read the URL"},
		{"alert receiver add ops --kind webhook --cause node_stale,gpu_count_dropped --severity warn -l tier=lab --tenant platform --file " + file,
			0, "This secret signs what it gets. It is shown this once:\n\n  whs_", ""},
		{"alert receiver add ops --kind webhook --file /dev/null", 2, "", "--replace"},
		{"alert receiver add ops --kind webhook --replace --file /dev/null", 0, "Try it: muster alert receiver test ops\n", ""},
		{"alert receiver ls", 0, "all", ""},
		{"alert receiver ls -o json", 0, `"kind":"webhook"`, ""},
		{"alert receiver test ops", 0, "ops took the test alert: status 200 after", ""},
		{"alert receiver test none", 1, "", "there is no receiver none"},
		{"alert receiver rm ops", 2, "", "--yes"},
		{"alert receiver rm ops --yes", 0, "ops is told no more.\n", ""},
		{"alert receiver rm ops --yes", 1, "", "there is no receiver"},
		{"alert receiver", 2, "", "alert receiver add"},
	} {
		code, out, says := h.muster(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(says, c.says) {
			t.Errorf("%s: code %d, out %s, says %s", c.args, code, out, says)
		}
		all += out + says
	}
	if strings.Contains(all, "9f8e7d") {
		t.Error("the address of a receiver is shown")
	}
	answer = http.StatusBadGateway
	h.muster("alert", "receiver", "add", "--replace", "ops", "--kind", "slack", "--file", file)
	code, _, says := h.muster("alert", "receiver", "test", "ops")
	if code != 1 || !strings.Contains(says, "status 502: it is broken") || !strings.Contains(says, "own log") {
		t.Errorf("a failed test: %d %s", code, says)
	}
	if code, out, _ = h.muster("alert", "receiver", "test", "ops", "-o", "json"); code != 1 || !strings.Contains(out, `"delivered":false`) {
		t.Errorf("a failed test in JSON: %d %s", code, out)
	}
}

// TestNoAlert: where no alert fires yet, the list still says which nodes are not well.
func TestNoAlert(t *testing.T) {
	h := withAlerts(t)
	h.api.Overview.Load(t.Context())
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "none of the alerts that were asked for fires; muster help conditions"},
		{func() {
			rows := h.rows()
			h.api.Overview.Findings(rows[0].ID, []api.Finding{{Rule: "gpu_count_dropped", Severity: api.SeveritySevere}})
		}, "none of the alerts that were asked for fires, but look at 1 node with findings (muster health ls); "},
	} {
		step.change()
		if code, out, says := h.muster("alert", "ls", "--cause", "node_stale"); code != 0 || strings.Count(out, "\n") != 1 ||
			!strings.Contains(says, step.want) {
			t.Errorf("code %d, out %q, says %q, want %q", code, out, says, step.want)
		}
	}
	h.now = h.now.Add(24 * time.Hour)
	if _, _, says := h.muster("alert", "ls", "--cause", "node_stale"); !strings.Contains(says,
		"stale nodes (muster node ls) and 1 node with") {
		t.Errorf("with stale nodes: %q", says)
	}
}
