package picture_test

import (
	"slices"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

func momentText(at any, now time.Time) string { return picture.MomentOf(at, now).Text }

func TestMoments(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := now.Add(-90 * time.Second)
	var none *time.Time
	for want, got := range map[string]string{
		"4 s ago": momentText(now.Add(-4*time.Second), now), "1 m ago": momentText(&at, now),
		"in 3 h":  momentText(now.Add(3*time.Hour), now),
		"2 d ago": momentText(now.Add(-50*time.Hour), now), "47 h ago": momentText(now.Add(-47*time.Hour), now),
		"0 s ago": momentText(now, now), "–": momentText(none, now),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestMarks: each meaning has a shape of its own, and every word of a state has a meaning.
func TestMarks(t *testing.T) {
	shapes := map[string]string{}
	words := slices.Concat(wire.States(), wire.Statuses(), wire.TaskStatuses(), []string{api.StatusLive,
		"done", "halted", "ok", "warn", "severe"})
	for _, word := range words {
		m := picture.MarkOf(word)
		if m.Word != word || m.Shape == "" {
			t.Errorf("%s is %+v", word, m)
		}
		shapes[m.Shape] = m.Class
	}
	classes := map[string]bool{}
	for _, class := range shapes {
		classes[class] = true
	}
	if len(shapes) != 5 || len(classes) != 5 {
		t.Errorf("shapes %v", shapes)
	}
}

// TestCapacities: each capacity of a node has a meaning, and a word that is none has none.
func TestCapacities(t *testing.T) {
	for word, want := range map[string]string{api.CapacityOpen: "good", api.CapacityFull: "good", api.CapacityUnproven: "attention",
		api.CapacityNone: "attention", api.CapacityDrained: "attention", api.CapacityBlocked: "bad", api.CapacitySilent: "bad",
		api.CapacityUnavailable: "bad", api.CapacityGone: "unknown", "": "unknown"} {
		if got := picture.CapacityOf(word); got.Class != want || got.Word == "" || got.Shape == "" {
			t.Errorf("%q is %+v", word, got)
		}
	}
	for _, word := range api.SlotStates() {
		if got := picture.MarkOf(word); got.Class == "unknown" && word != api.SlotDisabled {
			t.Errorf("the state %q has no meaning", word)
		}
	}
}
