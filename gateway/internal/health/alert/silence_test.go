package alert_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
)

// TestSilence: a silenced alert is listed and not told; when the silence ends, it is.
func TestSilence(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n, gpu("gpu-2"))
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	h.silence(api.AlertSilenceRequest{Selector: "tier=lab", Cause: condition.NodeStale, For: api.Duration(10 * time.Minute),
		Reason: "work on the network"})
	stale(n)
	h.pass(8 * time.Minute)
	h.open() // a restart forgets no silence
	h.pass(time.Minute)
	h.want("silenced", "node_stale gpu-1")
	if list := h.desk.List(alert.Query{}); list[0].Silence == nil || list[0].Silence.Reason != "work on the network" {
		t.Errorf("%+v", list[0])
	}
	if k.states() != "" {
		t.Errorf("it heard %s", k.states())
	}
	h.pass(2 * time.Minute)
	if k.states() != "firing" {
		t.Errorf("when the silence has ended it heard %q", k.states())
	}
	s := h.silence(api.AlertSilenceRequest{Node: "gpu-1", For: api.Duration(time.Hour), Reason: "work"})
	h.back(n)
	h.pass(2 * time.Minute)
	if k.states() != "firing resolved" {
		t.Errorf("who heard that it began heard %q", k.states())
	}
	stale(n)
	h.pass(2 * time.Minute)
	h.back(n)
	h.pass(2 * time.Minute)
	if k.states() != "firing resolved" {
		t.Errorf("what began and ended in silence was told: %q", k.states())
	}
	h.must(h.desk.Unsilence(t.Context(), s.ID, "", h.by))
	h.pass(2 * time.Minute)
	if k.states() != "firing resolved" || h.count("alert.silenced") != 2 || h.count("alert.unsilenced") != 1 {
		t.Errorf("after all it heard %q", k.states())
	}
}

// TestSilenceOfOne: a silence of some nodes does not keep an alert about many others from being told.
func TestSilenceOfOne(t *testing.T) {
	h := newHouse(t, fleet(40)...)
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	h.nodes[0].Labels = map[string]string{"tier": "work"}
	for _, n := range h.nodes[:25] {
		stale(n)
	}
	h.pass(50 * time.Second)
	h.silence(api.AlertSilenceRequest{Selector: "tier=work", For: api.Duration(time.Hour), Reason: "work"})
	h.pass(time.Minute)
	h.silence(api.AlertSilenceRequest{Selector: "tier=lab,name=gpu-01", For: api.Duration(time.Hour), Reason: "work"})
	h.pass(time.Minute)
	for _, a := range h.desk.List(alert.Query{}) {
		if a.Silence != nil && len(a.NodeIDs) > 0 {
			t.Errorf("an alert about %d nodes is silent", len(a.NodeIDs))
		}
	}
	if !strings.Contains(h.firing(), " nodes") {
		t.Errorf("%s fires", h.firing())
	}
}

// TestTheOthersAfterATrouble: what waited behind a message that was not taken is told later, too.
func TestTheOthersAfterATrouble(t *testing.T) {
	h := newHouse(t, gpu("gpu-1"), gpu("gpu-2"))
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	k.answers(status(http.StatusInternalServerError))
	stale(h.nodes[0])
	stale(h.nodes[1])
	h.pass(70 * time.Second)
	k.answers(nil)
	h.pass(10 * time.Minute)
	heard := map[any]bool{}
	for _, one := range k.all() {
		heard[one.alert["id"]] = true
	}
	if r := h.contact("ops"); r.Waiting != 0 || len(heard) != 2 {
		t.Errorf("%d wait, and it heard of %v", r.Waiting, heard)
	}
}

// TestManySilenced: many nodes that turned stale in a silence are told as one when it ends, a few each alone.
func TestManySilenced(t *testing.T) {
	for _, c := range []struct {
		stale int
		told  string
		want  int
	}{{25, "node_stale 25 nodes", 1}, {2, "node_stale gpu-00, node_stale gpu-01", 2}} {
		h := newHouse(t, fleet(40)...)
		k := newHook(t)
		h.receiver(alert.KindWebhook, "ops", k)
		h.silence(api.AlertSilenceRequest{Selector: "tenant=platform", For: api.Duration(10 * time.Minute), Reason: "work on the network"})
		for _, n := range h.nodes[:c.stale] {
			stale(n)
		}
		h.pass(8 * time.Minute)
		if k.states() != "" {
			t.Errorf("in the silence of %d nodes it heard %s", c.stale, k.states())
		}
		h.pass(4 * time.Minute)
		h.want("after the silence", c.told)
		if heard := len(strings.Fields(k.states())); heard != c.want {
			t.Errorf("of %d nodes it heard %q", c.stale, k.states())
		}
	}
}
