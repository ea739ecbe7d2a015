package console_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// conflict lets an alert fire about a node.
func (h *house) conflict(name string) {
	h.t.Helper()
	h.unwell = []*api.NodeRow{{ID: "id-gpu-1", Name: name, Tenant: "platform", State: wire.StateUnavailable, StateSince: h.now,
		StateReasons: []string{wire.ReasonConflict}}}
	h.alerts.Round()
	h.alerts.Round()
}

// TestAlertsPage: alerts are listed with what to do, silenced by a button, and the silence is ended by another.
func TestAlertsPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	got := b.get("/ui/alerts")
	if !strings.Contains(got.body, "There is no alert now.") || !strings.Contains(got.body, "Nobody is told of alerts yet.") {
		t.Errorf("an empty page: %s", got.body)
	}
	h.conflict("gpu-1")
	got = b.get("/ui/alerts")
	if !strings.Contains(got.body, `name="tenant" value="platform"`) {
		t.Error("the button would silence other tenants too")
	}
	for _, want := range []string{"gpu-1: Two machines use the node&#39;s identity", `href="/ui/nodes/id-gpu-1"`,
		"Find out which machine is the right one", "/ui/help/identity-trouble", "Silence 2 h"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if got = b.post("/ui/alerts/silences", "node", "id-gpu-1", "for", "2h", "reason", "we look at it"); got.status != http.StatusSeeOther {
		t.Fatalf("silence: %d %s", got.status, got.body)
	}
	got = b.get("/ui/alerts")
	if !strings.Contains(got.body, "nobody: it is silenced") {
		t.Error("who was told")
	}
	end := regexp.MustCompile(`/ui/alerts/silences/si-[0-9a-f]+/end`).FindString(got.body)
	if !strings.Contains(got.body, `title="we look at it">silenced`) || strings.Contains(got.body, "Silence 2 h") || end == "" {
		t.Fatalf("silenced: %s", got.body)
	}
	if got = b.post(end); got.status != http.StatusSeeOther || !strings.Contains(b.get("/ui/alerts").body, "Nothing is silenced.") {
		t.Errorf("end: %d", got.status)
	}
	if got = b.post(end); got.status != http.StatusNotFound || !strings.Contains(got.body, "there is no silence") {
		t.Errorf("end again: %d", got.status)
	}
	if got = b.post("/ui/alerts/silences", "node", "id-gpu-1", "for", "soon", "reason", "x"); got.status != http.StatusBadRequest ||
		!strings.Contains(got.body, "is no duration") || !strings.Contains(got.body, `value="id-gpu-1"`) {
		t.Errorf("a wrong silence: %d", got.status)
	}
}

// TestReceiversPage: a receiver is added, tried and removed; its address is shown nowhere.
func TestReceiversPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	status := http.StatusOK
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(hook.Close)
	got := b.post("/ui/alerts/receivers", "name", "ops", "kind", "webhook", "url", hook.URL+"/path-9f8e7d",
		"causes", "node_stale, gpu_count_dropped")
	if got.status != http.StatusOK || !regexp.MustCompile(`whs_[0-9A-Za-z_-]{43}`).MatchString(got.body) {
		t.Fatalf("add: %d %s", got.status, got.body)
	}
	page := b.get("/ui/alerts").body
	if strings.Contains(page, "whs_") || !strings.Contains(page, "gpu_count_dropped") || strings.Contains(page+got.body, "9f8e7d") {
		t.Errorf("the list: %s", page)
	}
	if got = b.post("/ui/alerts/receivers/ops/test"); !strings.Contains(got.body, "ops took the test alert: status 200") {
		t.Errorf("test: %d %s", got.status, got.body)
	}
	status = http.StatusNotFound
	if got = b.post("/ui/alerts/receivers/ops/test"); !strings.Contains(got.body, "check the path of the URL") ||
		!strings.Contains(got.body, `role="alert"`) {
		t.Errorf("a failed test: %d %s", got.status, got.body)
	}
	if got = b.post("/ui/alerts/receivers/none/test"); got.status != http.StatusNotFound {
		t.Errorf("a test of nobody: %d", got.status)
	}
	got = b.post("/ui/alerts/receivers", "name", "second", "kind", "slack", "url", "http://hooks.example/path-9f8e7d",
		"token", "tk-7c6b5a")
	if got.status != http.StatusBadRequest || strings.Contains(got.body, "9f8e7d") || strings.Contains(got.body, "7c6b5a") ||
		!strings.Contains(got.body, `value="second"`) {
		t.Errorf("a wrong receiver: %d %s", got.status, got.body)
	}
	got = b.post("/ui/alerts/receivers", "name", "am", "kind", "alertmanager", "url", hook.URL)
	if got.status != http.StatusSeeOther {
		t.Errorf("an Alertmanager: %d", got.status)
	}
	got = b.post("/ui/alerts/receivers/ops/remove")
	if got.status != http.StatusOK || !strings.Contains(got.body, "Remove the receiver ops?") {
		t.Errorf("the question: %d %s", got.status, got.body)
	}
	if got = b.post("/ui/alerts/receivers/ops/remove", "sure", "yes"); got.status != http.StatusSeeOther {
		t.Errorf("remove: %d", got.status)
	}
	if got = b.post("/ui/alerts/receivers/ops/remove", "sure", "yes"); got.status != http.StatusNotFound {
		t.Errorf("remove again: %d", got.status)
	}
}

// TestAlertsOfTenant: an account of one tenant sees its own alerts, and no receivers.
func TestAlertsOfTenant(t *testing.T) {
	h := newHouse(t)
	h.conflict("gpu-1")
	for tenant, sees := range map[string]bool{"platform": true, "research": false} {
		_, token := h.account(store.Account{Name: "of-" + tenant, Tenant: tenant, Scopes: []string{"alerts:read"}})
		got := h.browser(token).get("/ui/alerts")
		if got.status != http.StatusOK || strings.Contains(got.body, "gpu-1: Two machines") != sees || strings.Contains(got.body, "Receivers") ||
			strings.Contains(got.body, "<button class=\"button plain small\"") {
			t.Errorf("%s: %d %s", tenant, got.status, got.body)
		}
	}
}
