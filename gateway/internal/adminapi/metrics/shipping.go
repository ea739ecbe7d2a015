package metrics

import (
	"maps"
	"muster/gateway/api"
	"slices"
)

// ofRules makes a family with one value for each rule.
func ofRules(name, kind, help string, get func(api.LogShipping) float64) figure[*whole] {
	return figure[*whole]{family{name, kind, help}, func(t *text, w *whole) {
		for _, s := range w.Shipping {
			t.say(get(s), "rule", s.Name)
		}
	}}
}

func shippingFamilies() []figure[*whole] {
	return []figure[*whole]{
		ofRules("muster_log_shipping_lines_total", counter, "Log lines that a rule's sink took.",
			func(s api.LogShipping) float64 { return float64(s.Sent) }),
		{family{"muster_log_shipping_dropped_lines_total", counter, "Log lines that did not get to a rule's sink, by reason."}, sayDropped},
		ofRules("muster_log_shipping_waiting_lines", gauge, "Log lines that wait in a rule's buffer.",
			func(s api.LogShipping) float64 { return float64(s.Waiting) }),
		ofRules("muster_log_shipping_buffer_bytes", gauge, "Size of a rule's buffer.",
			func(s api.LogShipping) float64 { return float64(s.BufferBytes) }),
		ofRules("muster_log_shipping_lag_seconds", gauge, "How old the oldest line is that waits in a rule's buffer.",
			func(s api.LogShipping) float64 { return s.LagSeconds }),
		ofRules("muster_log_shipping_failing", gauge, "Whether a rule's sink takes nothing now: 1 or 0.",
			func(s api.LogShipping) float64 { return flag(s.FailingSince != nil) }),
		{family{"muster_log_shipping_held_batches_total", counter, "Batches that nodes above their rate were asked to send later, by tenant."},
			func(t *text, w *whole) { t.counts("tenant", w.HeldBatches) }},
	}
}

func sayDropped(t *text, w *whole) {
	for _, s := range w.Shipping {
		for _, reason := range slices.Sorted(maps.Keys(s.Dropped)) {
			t.say(float64(s.Dropped[reason]), "rule", s.Name, "reason", reason)
		}
	}
}
