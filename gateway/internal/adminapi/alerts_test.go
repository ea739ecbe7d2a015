package adminapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
)

// withAlerts opens a desk of alerts that sees two machines claim the identity of each of these nodes.
func (h *house) withAlerts(nodes ...*api.NodeRow) {
	h.t.Helper()
	for _, n := range nodes {
		n.ID = "id-" + n.Name
		n.State = wire.StateUnavailable
		n.StateReasons = []string{wire.ReasonConflict}
	}
	var err error
	h.api.Alerts, err = alert.Open(h.t.Context(), alert.Config{Store: h.store, Ready: func() bool { return true },
		Nodes: func() []*api.NodeRow { return nodes }, Now: func() time.Time { return h.now },
		Node: func(id string) (*api.NodeRow, bool) {
			for _, n := range nodes {
				if n.ID == id {
					return n, true
				}
			}
			return nil, false
		}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.api.Alerts.Round()
}

// TestAlerts: each account sees and silences what is about its tenant, and no words of others.
func TestAlerts(t *testing.T) {
	h := newHouse(t)
	h.withAlerts(&api.NodeRow{Name: "ours", Tenant: "platform", Labels: map[string]string{"tier": "lab"}},
		&api.NodeRow{Name: "theirs", Tenant: "research"})
	reader := h.account("r", "research", "alerts:read", "alerts:write")
	status, body := h.ask("POST", "alert-silences", "", `{"cause":"identity_conflict","for":"2h","reason":"of-the-whole-fleet"}`)
	whole := decode[api.AlertSilence](t, body)
	if status != 200 || !strings.HasPrefix(whole.ID, "si-") {
		t.Fatalf("%d %s", status, body)
	}
	for _, c := range []struct{ query, token, want string }{
		{"", "", "ours theirs"}, {"", reader, "theirs"}, {"?tenant=platform", "", "ours"}, {"?selector=tier%3Dlab", "", "ours"},
		{"?cause=node_stale", "", ""}, {"?all=true", reader, "theirs"}, {"?id=x", "", ""},
	} {
		status, body := h.ask("GET", "alerts"+c.query, c.token, "")
		list := decode[api.AlertList](t, body)
		names := map[string]bool{}
		for _, a := range list.Alerts {
			names[a.Node] = true
			if a.Silence == nil || a.Next == "" || a.Topic == "" || a.Deliveries == nil || a.NodeIDs == nil {
				t.Errorf("%s: %+v", c.query, a)
			}
		}
		if status != 200 || len(names) != len(strings.Fields(c.want)) || list.Total != len(names) ||
			c.token != "" && strings.Contains(string(body), "of-the-whole-fleet") {
			t.Errorf("%s: %d %s", c.query, status, body)
		}
		for _, name := range strings.Fields(c.want) {
			if !names[name] {
				t.Errorf("%s: %s is left out", c.query, name)
			}
		}
	}
	for _, c := range []struct {
		method, path, token, body string
		want                      int
	}{
		{"GET", "alerts?cause=zzz", "", "", 400},
		{"POST", "alert-silences", reader, `{"node":"ours","for":"2h","reason":"x"}`, 404},
		{"POST", "alert-silences", reader, `{"node":"theirs","tenant":"platform","for":"2h","reason":"x"}`, 403},
		{"POST", "alert-silences", reader, `{"node":"theirs","for":"2h","reason":"a=msa_abcdefgh1234_abcdefghijklmnopqrstuvwxyz"}`, 400},
		{"POST", "alert-silences", reader, `{"node":"theirs","for":"2h"}`, 400},
		{"DELETE", "alert-silences/" + whole.ID, reader, "", 404},
		{"DELETE", "alert-silences/" + whole.ID + "?x=1", "", "", 400},
		{"DELETE", "alert-silences/" + whole.ID, "", "", 200},
		{"GET", "alerts?selector=%3D", "", "", 400}, {"GET", "alerts?selector=status%3Dx", "", "", 400}, {"GET", "alerts?all=x", "", "", 400},
		{"GET", "alerts?tenant=platform", reader, "", 403}, {"GET", "alerts?x=1", "", "", 400},
		{"GET", "alert-silences?x=1", "", "", 400}, {"GET", "alert-silences?tenant=platform", reader, "", 403},
		{"GET", "alert-receivers", reader, "", 403}, {"GET", "alert-receivers?x=1", "", "", 400},
	} {
		if status, body := h.ask(c.method, c.path, c.token, c.body); status != c.want {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, status, body)
		}
	}
	status, body = h.ask("POST", "alert-silences", reader, `{"selector":"tier=lab","for":"2h","reason":"x"}`)
	if mine := decode[api.AlertSilence](t, body); status != 200 || mine.Tenant != "research" {
		t.Errorf("%d %s", status, body)
	}
	status, body = h.ask("GET", "alert-silences", reader, "")
	if list := decode[api.AlertSilenceList](t, body); status != 200 || len(list.Silences) != 1 {
		t.Errorf("%d %s", status, body)
	}
	status, body = h.ask("POST", "alert-silences", reader, `{"cause":"identity_conflict","for":"2h","reason":"x"}`)
	_, all := h.ask("GET", "alerts?tenant=platform", "", "")
	if status != 200 || !strings.Contains(string(all), `"id"`) || strings.Contains(string(all), `"reason":"x"`) {
		t.Errorf("a silence of one tenant reaches another: %d %s, %s", status, body, all)
	}
}

// TestAlertReceivers: a receiver is set, tried and removed, and its address is in no answer.
func TestAlertReceivers(t *testing.T) {
	h := newHouse(t)
	h.withAlerts()
	answer := http.StatusOK
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answer) }))
	t.Cleanup(hook.Close)
	set := `{"kind":"webhook","url":"` + hook.URL + `/path-9f8e7d","causes":["node_stale"],"severity":"warn"}`
	status, body := h.ask("PUT", "alert-receivers/ops", "", set)
	r := decode[api.AlertReceiver](t, body)
	if status != 200 || r.Secret == "" || "http://"+r.Host != hook.URL || r.Causes[0] != "node_stale" {
		t.Errorf("%d %s", status, body)
	}
	said := ""
	for _, c := range []struct {
		method, path, body string
		answer, want       int
		holds              string
	}{
		{"PUT", "alert-receivers/ops", `{"kind":"webhook"}`, 200, 409, "--replace"},
		{"PUT", "alert-receivers/ops", `{"kind":"webhook","replace":true}`, 200, 200, `"kind":"webhook"`},
		{"GET", "alert-receivers", "", 200, 200, `"causes":[]`},
		{"POST", "alert-receivers/ops/test", "", 200, 200, `"delivered":true,"status":200`},
		{"POST", "alert-receivers/ops/test", "", 500, 200, `"delivered":false,"status":500`},
		{"POST", "alert-receivers/none/test", "", 200, 404, "there is no receiver none"},
		{"PUT", "alert-receivers/ops", `{"kind":"pigeon","replace":true}`, 200, 400, "no kind of receiver"},
		{"PUT", "alert-receivers/ops", `{"kind":"webhook","selector":"a=msa_abcdefgh1234_abcdefghijklmnopqrstuvwxyz"}`, 200, 400, ""},
		{"DELETE", "alert-receivers/ops?x=1", "", 200, 400, ""},
		{"DELETE", "alert-receivers/ops", "", 200, 200, "deleted"},
		{"DELETE", "alert-receivers/ops", "", 200, 404, ""},
	} {
		answer = c.answer
		status, body := h.ask(c.method, c.path, "", c.body)
		text := string(body)
		if status != c.want || !strings.Contains(text, c.holds) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
		said += text
	}
	if strings.Contains(said, "9f8e7d") || strings.Contains(said, `"secret"`) {
		t.Errorf("a secret is shown: %s", said)
	}
}
