package alert_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
)

// TestWebhook: a webhook hears of the beginning and of the end, each signed, each with a key of its own.
func TestWebhook(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	k := newHook(t)
	secret := h.receiver(alert.KindWebhook, "ops", k)
	stale(n)
	h.pass(3 * time.Minute)
	h.back(n)
	h.pass(3 * time.Minute)
	if k.states() != "firing resolved" {
		t.Fatalf("it heard %q", k.states())
	}
	keys := map[string]bool{}
	for _, one := range k.all() {
		if one.path != "/path-9f8e7d" || one.header.Get("Content-Type") != "application/json" || one.alert["node"] != "gpu-1" ||
			one.alert["cause"] != condition.NodeStale || one.alert["url"] != "https://gw.example/ui/alerts" ||
			(one.alert["next"] == "") != (one.alert["state"] == alert.Resolved) ||
			strings.HasPrefix(one.alert["text"].(string), "Resolved: ") != (one.alert["state"] == alert.Resolved) ||
			one.alert["tenant"] != "platform" || one.alert["key"] != one.header.Get("Idempotency-Key") {
			t.Errorf("%s %v %v", one.path, one.header, one.alert)
		}
		keys[one.header.Get("Idempotency-Key")] = true
		checkSignature(t, secret, one)
	}
	if len(keys) != 2 || !strings.HasPrefix(secret, "whs_") {
		t.Errorf("keys %v", keys)
	}
	if r := h.contact("ops"); r.SentAt == nil || r.Error != "" || r.Waiting != 0 {
		t.Errorf("%+v", r)
	}
}

// checkSignature does what muster help alerts tells receivers to do.
func checkSignature(t *testing.T, secret string, one got) {
	t.Helper()
	parts := map[string]string{}
	for _, part := range strings.Split(one.header.Get("Muster-Signature"), ",") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", parts["t"], one.body)
	if parts["t"] == "" || hex.EncodeToString(mac.Sum(nil)) != parts["v1"] {
		t.Errorf("the signature %q does not fit", one.header.Get("Muster-Signature"))
	}
}

// TestRetry: what fails is tried again with growing pauses, with the same key, and only the newest word counts.
func TestRetry(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	k := newHook(t)
	k.answers(status(http.StatusInternalServerError))
	h.receiver(alert.KindWebhook, "ops", k)
	stale(n)
	h.pass(10 * time.Minute)
	tries := k.all()
	if len(tries) < 5 || len(tries) > 9 {
		t.Fatalf("%d tries in nine minutes", len(tries))
	}
	for _, one := range tries {
		if one.header.Get("Idempotency-Key") != tries[0].header.Get("Idempotency-Key") {
			t.Error("a try has another key")
		}
	}
	if r := h.contact("ops"); r.Waiting != 1 || !strings.Contains(r.Error, "status 500") || strings.Contains(r.Error, "9f8e7d") {
		t.Errorf("%+v", r)
	}
	h.back(n)
	h.pass(3 * time.Minute)
	k.answers(nil)
	h.pass(15 * time.Minute)
	heard := strings.Fields(k.states())
	if heard[len(heard)-1] != alert.Resolved || strings.Contains(k.states(), "resolved firing") {
		t.Errorf("it heard %s", k.states())
	}
	before := len(k.all())
	h.pass(time.Hour)
	if len(k.all()) != before {
		t.Error("it is told again")
	}
}

// TestGivenUp: after a day a delivery is given up, with an event, and its receiver shows it.
func TestGivenUp(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	k := newHook(t)
	k.answers(status(http.StatusBadGateway))
	h.receiver(alert.KindWebhook, "ops", k)
	stale(n)
	h.pass(2 * time.Minute)
	for range 26 * 4 {
		h.now = h.now.Add(15 * time.Minute)
		h.step()
	}
	if h.count("alert.given_up") != 1 || h.contact("ops").GivenUp != 1 || h.contact("ops").Waiting != 0 {
		t.Fatalf("%d events, %+v", h.count("alert.given_up"), h.contact("ops"))
	}
	tries := len(k.all())
	k.answers(nil)
	h.back(n)
	h.pass(2 * time.Hour)
	if len(k.all()) != tries {
		t.Errorf("who never heard that it began is told that it ended: %s", k.states())
	}
}

// TestPauses: they grow to a bound, and chance spreads them.
func TestPauses(t *testing.T) {
	last := time.Duration(0)
	for tries := 1; tries < 100; tries++ {
		most, least := alert.Pause(tries, 1), alert.Pause(tries, 0)
		if most < last || most > alert.MostPause || least != most/2 {
			t.Errorf("after %d failures: %s to %s", tries, least, most)
		}
		last = most
	}
	if alert.Pause(1, 1) != alert.FirstPause || last != alert.MostPause {
		t.Errorf("from %s to %s", alert.Pause(1, 1), last)
	}
}

// TestWaits: a receiver that asks to wait is left alone for so long.
func TestWaits(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	k := newHook(t)
	k.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1800")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	h.receiver(alert.KindWebhook, "ops", k)
	stale(n)
	h.pass(29 * time.Minute)
	if len(k.all()) != 1 {
		t.Errorf("%d tries in half an hour", len(k.all()))
	}
	k.answers(nil)
	h.pass(5 * time.Minute)
	if len(k.all()) != 2 || h.contact("ops").Waiting != 0 {
		t.Errorf("%d tries, %+v", len(k.all()), h.contact("ops"))
	}
}

// TestUnreachable: nothing listens, and the error says so without the address.
func TestUnreachable(t *testing.T) {
	h := newHouse(t)
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	k.Close()
	tried, err := h.desk.Test(t.Context(), "ops", h.by)
	if err != nil || !strings.HasPrefix(tried.Error, "nothing listens at 127.0.0.1:") || tried.Status != 0 {
		t.Errorf("%+v, error %v", tried, err)
	}
	h.desk.Flush(t.Context())
	if h.count("alert.receiver_tested") != 1 {
		t.Error("the test is no event")
	}
}

// TestSlow: a receiver that does not answer delays neither another nor the desk.
func TestSlow(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	slow, quick := newHook(t), newHook(t)
	slow.release = make(chan struct{})
	h.receiver(alert.KindWebhook, "slow", slow)
	h.receiver(alert.KindWebhook, "quick", quick)
	stale(n)
	h.desk.Round()
	h.now = h.now.Add(2 * time.Minute)
	h.desk.Round()
	h.desk.Flush(t.Context())
	h.desk.Begin(t.Context())
	waitFor(t, func() bool { return h.contact("quick").SentAt != nil && len(slow.all()) == 1 })
	h.desk.Begin(t.Context())
	h.back(n)
	h.desk.Round()
	h.now = h.now.Add(2 * time.Minute)
	h.desk.Round()
	h.desk.Flush(t.Context())
	h.desk.Begin(t.Context())
	waitFor(t, func() bool { return quick.states() == "firing resolved" })
	if slow.states() != "firing" {
		t.Errorf("the slow one is told %s at a time", slow.states())
	}
	close(slow.release)
	h.desk.Settle()
	h.step()
	if slow.states() != "firing resolved" {
		t.Errorf("the slow one heard %s", slow.states())
	}
}

// waitFor waits for what another goroutine does.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("it did not come")
		}
	}
}

// TestKilled: a gateway that is killed after it told, and before it wrote that down, tells again with the same key. One that is killed
// before it told, tells.
func TestKilled(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	stale(n)
	h.desk.Round()
	h.now = h.now.Add(2 * time.Minute)
	h.desk.Round()
	h.desk.Flush(t.Context())
	h.open()
	h.desk.Send(t.Context())
	h.open()
	h.step()
	all := k.all()
	if k.states() != "firing firing" || all[0].alert["key"] != all[1].alert["key"] {
		t.Fatalf("it heard %s", k.states())
	}
	h.back(n)
	h.desk.Round()
	h.now = h.now.Add(2 * time.Minute)
	h.desk.Round()
	h.desk.Flush(t.Context())
	h.open()
	h.step()
	h.open()
	h.pass(time.Minute)
	if k.states() != "firing firing resolved" {
		t.Errorf("it heard %s", k.states())
	}
}

// TestWrittenLater: what the database did not take is written when that is possible again, once, with its event.
func TestWrittenLater(t *testing.T) {
	h := newHouse(t)
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	h.facts = outage(h.now)
	over, end := context.WithCancel(t.Context())
	end()
	for range 12 {
		h.look(5 * time.Second)
		h.desk.Flush(over)
	}
	if h.firing() == "" || h.count("alert.fired") != 0 || len(h.records()) != 0 {
		t.Fatalf("%q fires, and the database has %+v", h.firing(), h.records())
	}
	h.step()
	h.step()
	if h.count("alert.fired") != 1 || len(h.records()) != 1 || k.states() != "firing" {
		t.Errorf("%d events, %+v, and it heard %q", h.count("alert.fired"), h.records(), k.states())
	}
}

// TestUnwritten: what cannot be written is told all the same, once.
func TestUnwritten(t *testing.T) {
	h := newHouse(t)
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	h.must(h.store.Close())
	h.facts = outage(h.now)
	h.pass(3 * time.Minute)
	if all := k.all(); len(all) != 1 || all[0].alert["cause"] != condition.GatewayCannotWrite {
		t.Fatalf("it heard %s", k.states())
	}
	if n := strings.Count(h.log.String(), "alerts wait in memory"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// TestAlertmanager: it gets many alerts in one request, again while they fire, and then their end.
func TestAlertmanager(t *testing.T) {
	a, b := gpu("gpu-1"), gpu("gpu-2")
	h := newHouse(t, a, b, gpu("gpu-3"))
	k := newHook(t)
	h.receiver(alert.KindAlertmanager, "am", k)
	stale(a)
	stale(b)
	h.pass(65 * time.Second)
	var first []map[string]any
	all := k.all()
	if len(all) != 1 || all[0].path != "/path-9f8e7d/api/v2/alerts" {
		t.Fatalf("%+v", all)
	}
	h.must(json.Unmarshal([]byte(all[0].body), &first))
	labels, _ := first[0]["labels"].(map[string]any)
	if len(first) != 2 || labels["alertname"] != condition.NodeStale || !strings.Contains(all[0].body, `"node":"gpu-1"`) ||
		labels["tenant"] != "platform" ||
		first[0]["startsAt"] != "2026-11-22T12:00:00Z" || first[0]["endsAt"] != h.now.Add(5*time.Minute).Format(time.RFC3339) {
		t.Errorf("%v", first)
	}
	h.pass(10 * time.Minute)
	if n := len(k.all()); n < 9 || n > 12 {
		t.Errorf("told %d times in ten minutes", n)
	}
	h.silence(api.AlertSilenceRequest{Node: "gpu-2", For: api.Duration(time.Hour), Reason: "work"})
	h.pass(2 * time.Minute)
	all = k.all()
	if strings.Contains(all[len(all)-1].body, "gpu-2") {
		t.Error("it is told again of what is silenced")
	}
	h.back(a)
	h.pass(65 * time.Second)
	resolved := h.now
	h.pass(5 * time.Minute)
	all = k.all()
	last := all[len(all)-1]
	if !strings.Contains(last.body, `"endsAt":"`+resolved.Format(time.RFC3339)) || !strings.Contains(last.body, "gpu-1") {
		t.Errorf("at its end it heard %s, want the end at %s", last.body, resolved)
	}
}

// TestWords: Slack makes no link of what a node says, and ntfy gets topic and priority.
func TestWords(t *testing.T) {
	n := gpu("<https://evil|gpu> & co")
	h := newHouse(t, n, gpu("gpu-2"))
	slack, ntfy := newHook(t), newHook(t)
	h.receiver(alert.KindSlack, "slack", slack)
	h.receiver(alert.KindNtfy, "phone", ntfy)
	n.Findings = []api.Finding{missing()}
	h.pass(time.Minute)
	text := fmt.Sprint(slack.all()[0].alert["text"])
	const want = "*SEVERE* &lt;https://evil|gpu&gt; &amp; co: 1 of 2 GPUs answer\n"
	if strings.Contains(text, "<https://evil") || !strings.HasPrefix(text, want) {
		t.Errorf("Slack gets %q", text)
	}
	one := ntfy.all()[0]
	if one.path != "/" || one.alert["topic"] != "path-9f8e7d" || one.alert["priority"] != 4.0 || one.alert["title"] != "muster: gpu count dropped" {
		t.Errorf("ntfy gets %s %v", one.path, one.alert)
	}
}
