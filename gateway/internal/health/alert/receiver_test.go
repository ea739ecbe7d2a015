package alert_test

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/label"
	"muster/store"
)

// TestSecrets: neither the URL nor the token nor the secret of a receiver is anywhere but in its requests.
func TestSecrets(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	k := newHook(t)
	k.answers(status(http.StatusForbidden))
	const token = "tk_5e4d3c2b1a"
	secret, err := h.set("ops", api.AlertReceiverRequest{Kind: alert.KindWebhook, Token: token,
		URL: k.URL + "/path-9f8e7d?key=q-7c6b5a"})
	h.must(err)
	stale(n)
	h.pass(5 * time.Minute)
	_, err = h.desk.Test(t.Context(), "ops", h.by)
	h.must(err)
	k.Close()
	h.pass(10 * time.Minute)
	h.must(h.desk.DropReceiver(t.Context(), "ops", h.by))
	if k.all()[0].header.Get("Authorization") != "Bearer "+token {
		t.Error("the token is not sent")
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Limit: 1000})
	h.must(err)
	said := fmt.Sprintf("%+v %+v %+v %s", events, h.desk.Receivers(), h.desk.List(alert.Query{All: true}), &h.log)
	files, err := filepath.Glob(h.path + "*")
	h.must(err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		h.must(err)
		said += string(raw)
	}
	for _, hidden := range []string{"9f8e7d", "7c6b5a", "5e4d3c", secret} {
		if hidden == "" || strings.Contains(said, hidden) {
			t.Errorf("%q stands somewhere", hidden)
		}
	}
	if h.count("alert.receiver_set") != 1 || h.count("alert.receiver_removed") != 1 {
		t.Error("a change of a receiver is no event")
	}
}

// TestTLS: a certificate that nobody vouches for is refused, and one for another name too.
func TestTLS(t *testing.T) {
	h := newHouse(t)
	server := httptest.NewTLSServer(http.HandlerFunc(status(http.StatusOK)))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	_, err := h.set("ops", api.AlertReceiverRequest{Kind: alert.KindSlack, URL: server.URL})
	h.must(err)
	tried, err := h.desk.Test(t.Context(), "ops", h.by)
	if err != nil || !strings.Contains(tried.Error, "not of an authority that this machine trusts") {
		t.Errorf("%+v, error %v", tried, err)
	}
	h.config.Roots = x509.NewCertPool()
	h.config.Roots.AddCert(server.Certificate())
	h.open()
	if tried, err = h.desk.Test(t.Context(), "ops", h.by); err != nil || tried.Error != "" || tried.Status != http.StatusOK {
		t.Errorf("%+v, error %v", tried, err)
	}
	elsewhere := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	_, err = h.set("ops", api.AlertReceiverRequest{Kind: alert.KindSlack, URL: elsewhere, Replace: true})
	h.must(err)
	if tried, err = h.desk.Test(t.Context(), "ops", h.by); err != nil || !strings.Contains(tried.Error, "for another name") {
		t.Errorf("%+v, error %v", tried, err)
	}
}

// TestReceiverChecks: what could not work is refused, without the address in the words.
func TestReceiverChecks(t *testing.T) {
	h := newHouse(t)
	good := api.AlertReceiverRequest{Kind: alert.KindWebhook, URL: "https://hooks.example/path-9f8e7d"}
	for name, change := range map[string]func(*api.AlertReceiverRequest){
		"no kind": func(q *api.AlertReceiverRequest) { q.Kind = "mail" }, "no URL": func(q *api.AlertReceiverRequest) { q.URL = "" },
		"another scheme":        func(q *api.AlertReceiverRequest) { q.URL = "ftp://hooks.example/path-9f8e7d" },
		"no host":               func(q *api.AlertReceiverRequest) { q.URL = "https:///path-9f8e7d" },
		"a user":                func(q *api.AlertReceiverRequest) { q.URL = "https://u:path-9f8e7d@hooks.example/" },
		"a fragment":            func(q *api.AlertReceiverRequest) { q.URL += "#x" },
		"a line feed":           func(q *api.AlertReceiverRequest) { q.URL += "\n" },
		"a long URL":            func(q *api.AlertReceiverRequest) { q.URL += strings.Repeat("x", 3000) },
		"a token in plain text": func(q *api.AlertReceiverRequest) { q.URL = "http://hooks.example/path-9f8e7d"; q.Token = "x" },
		"Slack in plain text": func(q *api.AlertReceiverRequest) {
			q.URL = "http://hooks.example/path-9f8e7d"
			q.Kind = alert.KindSlack
		},
		"ntfy without topic":     func(q *api.AlertReceiverRequest) { q.URL = "https://ntfy.example/"; q.Kind = alert.KindNtfy },
		"a token of two words":   func(q *api.AlertReceiverRequest) { q.Token = "a b" },
		"a cause that is none":   func(q *api.AlertReceiverRequest) { q.Causes = []string{"rain"} },
		"a severity that is not": func(q *api.AlertReceiverRequest) { q.Severity = "bad" },
		"a priority of no ntfy":  func(q *api.AlertReceiverRequest) { q.Priority = 3 },
		"a priority too high":    func(q *api.AlertReceiverRequest) { q.Priority = 6; q.Kind = alert.KindNtfy },
		"a bad selector":         func(q *api.AlertReceiverRequest) { q.Selector = "==," },
		"a bad tenant":           func(q *api.AlertReceiverRequest) { q.Tenant = "not a tenant" },
	} {
		q := good
		change(&q)
		if _, err := h.set("ops", q); err == nil || strings.Contains(err.Error(), "9f8e7d") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", good.URL} {
		if _, err := h.set(name, good); err == nil || strings.Contains(err.Error(), "9f8e7d") {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	for i := range 20 {
		_, err := h.set(fmt.Sprintf("ops-%d", i), good)
		h.must(err)
	}
	if _, err := h.set("ops", good); err == nil {
		t.Error("there is no bound")
	}
	if err := h.desk.DropReceiver(t.Context(), "none", h.by); err == nil {
		t.Error("a receiver that is not there can be removed")
	}
	if _, err := h.desk.Test(t.Context(), "https://x/path-9f8e7d", h.by); err == nil || strings.Contains(err.Error(), "9f8e7d") {
		t.Errorf("of no receiver: %v", err)
	}
}

// TestChange: what is not said again stays, the secret always; a token goes to no other address by itself.
func TestChange(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	k, other := newHook(t), newHook(t)
	first, err := h.set("ops", api.AlertReceiverRequest{Kind: alert.KindWebhook, URL: k.URL, Token: "tk"})
	h.must(err)
	if _, err = h.set("ops", api.AlertReceiverRequest{Kind: alert.KindSlack, URL: other.URL}); err == nil ||
		!strings.Contains(err.Error(), "there is a receiver ops already") {
		t.Errorf("replaced without a question: %v", err)
	}
	again, err := h.set("ops", api.AlertReceiverRequest{Kind: alert.KindWebhook, Severity: wire.SeverityWarn, Replace: true})
	h.must(err)
	h.open()
	stale(n)
	h.pass(2 * time.Minute)
	all := k.all()
	if again != "" || len(all) != 1 || all[0].header.Get("Authorization") != "Bearer tk" {
		t.Fatalf("%q, %v", again, all)
	}
	checkSignature(t, first, all[0])
	_, err = h.set("ops", api.AlertReceiverRequest{Kind: alert.KindWebhook, URL: other.URL, Replace: true})
	h.must(err)
	h.back(n)
	h.pass(2 * time.Minute)
	if all = other.all(); len(all) != 1 || all[0].header.Get("Authorization") != "" {
		t.Errorf("%v", all)
	}
}

// TestFilters: a receiver gets what it asked for, by cause, severity, tenant and selector.
func TestFilters(t *testing.T) {
	a, b := gpu("gpu-1"), gpu("gpu-2")
	b.Tenant = "other"
	b.Labels = nil
	h := newHouse(t, a, b, gpu("gpu-3"))
	k := newHook(t)
	h.must(nil)
	for name, q := range map[string]api.AlertReceiverRequest{
		"all": {}, "cause": {Causes: []string{condition.NodeStale}}, "severe": {Severity: wire.SeveritySevere}, "tenant": {Tenant: "other"},
		"lab": {Selector: "tier=lab"},
	} {
		q.Kind = alert.KindWebhook
		q.URL = k.URL + "/" + name
		_, err := h.set(name, q)
		h.must(err)
	}
	stale(a)
	h.facts = halt("stable")
	b.State = wire.StateUnavailable
	b.StateReasons = []string{wire.HealthProbeFailed}
	h.pass(2 * time.Minute)
	heard := map[string]int{}
	for _, one := range k.all() {
		heard[one.path+" "+fmt.Sprint(one.alert["cause"])]++
	}
	want := []string{"/all node_stale", "/all node_unavailable", "/all rollout_halted", "/cause node_stale", "/severe node_unavailable",
		"/severe rollout_halted", "/tenant node_unavailable", "/lab node_stale"}
	for _, one := range want {
		if heard[one] != 1 {
			t.Errorf("%s came %d times", one, heard[one])
		}
	}
	if len(heard) != len(want) {
		t.Errorf("%v", heard)
	}
}

// TestSilenceChecks: a silence says what, how long and why.
func TestSilenceChecks(t *testing.T) {
	h := newHouse(t, gpu("gpu-1"))
	for name, q := range map[string]api.AlertSilenceRequest{
		"of nothing":      {For: api.Duration(time.Hour), Reason: "x"},
		"of no node":      {Node: "gpu-9", For: api.Duration(time.Hour), Reason: "x"},
		"another's node":  {Node: "gpu-1", Tenant: "other", For: api.Duration(time.Hour), Reason: "x"},
		"of no cause":     {Cause: "rain", For: api.Duration(time.Hour), Reason: "x"},
		"a bad selector":  {Selector: "==", For: api.Duration(time.Hour), Reason: "x"},
		"a bad status":    {Selector: "status=sad", For: api.Duration(time.Hour), Reason: "x"},
		"for no time":     {Node: "gpu-1", Reason: "x"},
		"for ever":        {Node: "gpu-1", For: api.Duration(10_000 * time.Hour), Reason: "x"},
		"without reason":  {Node: "gpu-1", For: api.Duration(time.Hour), Reason: " "},
		"a long reason":   {Node: "gpu-1", For: api.Duration(time.Hour), Reason: strings.Repeat("x", 501)},
		"everybody's own": {Tenant: "platform", For: api.Duration(time.Hour), Reason: "x"},
	} {
		if _, err := h.desk.Silence(t.Context(), q, h.by); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	s := h.silence(api.AlertSilenceRequest{Node: "id-gpu-1", For: api.Duration(time.Hour), Reason: "x"})
	if s.Tenant != "platform" || s.Node != "gpu-1" || len(h.desk.Silences("other")) != 0 || len(h.desk.Silences("platform")) != 1 {
		t.Errorf("%+v", s)
	}
	if err := h.desk.Unsilence(t.Context(), s.ID, "other", h.by); err == nil {
		t.Error("another tenant ended it")
	}
}

// TestList: open ones first, by severity; a query picks.
func TestList(t *testing.T) {
	a, b := gpu("gpu-1"), gpu("gpu-2")
	b.Tenant = "other"
	b.Labels = nil
	h := newHouse(t, a, b, gpu("gpu-3"))
	stale(a)
	b.Findings = []api.Finding{missing()}
	h.pass(2 * time.Minute)
	list := h.desk.List(alert.Query{})
	if len(list) != 2 || list[0].Cause != condition.GPUCountDropped || list[1].Cause != condition.NodeStale {
		t.Fatalf("%+v", list)
	}
	b.Findings = nil
	h.pass(2 * time.Minute)
	for name, c := range map[string]struct {
		q    alert.Query
		want int
	}{"open": {alert.Query{}, 1}, "all": {alert.Query{All: true}, 2}, "tenant": {alert.Query{All: true, Tenant: "other"}, 1},
		"cause": {alert.Query{All: true, Cause: condition.NodeStale}, 1}, "id": {alert.Query{ID: list[0].ID}, 1},
		"no id":    {alert.Query{ID: "x"}, 0},
		"selector": {alert.Query{All: true, Terms: []label.Term{{Key: "tier", Op: label.OpEquals, Value: "lab"}}}, 1}} {
		if got := h.desk.List(c.q); len(got) != c.want {
			t.Errorf("%s: %d alerts", name, len(got))
		}
	}
	h.now = h.now.Add(31 * 24 * time.Hour)
	h.desk.Prune(t.Context())
	if got := h.desk.List(alert.Query{All: true}); len(got) != 1 {
		t.Errorf("after a month: %+v", got)
	}
	h.open()
	if got := h.desk.List(alert.Query{All: true}); len(got) != 1 {
		t.Errorf("after a month and a restart: %+v", got)
	}
}
