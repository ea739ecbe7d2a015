package metrics

import (
	"maps"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/view"
)

// Gateway is how the gateway itself is at this moment. A nil field is not known.
type Gateway struct {
	Version string
	Started time.Time

	DatabaseBytes *int64 // with what is not in its file yet
	HistoryBytes  *int64
	HistoryMost   *int64 // nil: no history is kept
	DiskFreeBytes *int64 // of the data directory's file system, for this user
	DiskBytes     *int64
	Writable      bool // the database takes writes

	Feed        view.Lag
	Connections Connections
	Tasks       map[string]int // that have not ended, by status; nil: not known
	Rollouts    []Rollout
	Certificates
	Shipping    []api.LogShipping
	HeldBatches map[string]int64 // by tenant
	Failed      []string         // what could not be found out
}

// Connections are the numbers of the limiter.
type Connections struct {
	Open, Unproven int
	Limits         httpserver.Limits
	Closed         map[string]int64 // since the start, by reason
}

// Certificates are the certificates whose end would cut the gateway off from its nodes.
type Certificates struct {
	Serving      *time.Time
	Intermediate *time.Time
	Roots        map[string]time.Time // by pin
}

// Rollout says how far a channel's newest rollout is.
type Rollout struct {
	Channel string
	State   string         // empty: it never had one
	Nodes   map[string]int // of the channel, by where they stand
}

// whole is all that the metrics of the gateway are made of.
type whole struct {
	Gateway
	process
	events map[happening]int64
}

// gatewayFamilies is the table of the metrics of the gateway itself.
func gatewayFamilies() []figure[*whole] {
	return slices.Concat(processFamilies(), trafficFamilies(), workFamilies(), shippingFamilies())
}

// one makes a family of one value that is always known.
func one(name, kind, help string, get func(*whole) float64) figure[*whole] {
	return figure[*whole]{family{name, kind, help}, func(t *text, w *whole) { t.value(get(w)) }}
}

// maybe makes a family of one value that may not be known.
func maybe[T int64 | float64](name, kind, help string, get func(*whole) *T) figure[*whole] {
	return figure[*whole]{family{name, kind, help}, func(t *text, w *whole) {
		if v := get(w); v != nil {
			t.value(float64(*v))
		}
	}}
}

func processFamilies() []figure[*whole] {
	return []figure[*whole]{
		{family{"muster_gateway_build_info", gauge, "The gateway's version. Always 1."}, func(t *text, w *whole) {
			t.say(1, "version", w.Version, "go_version", w.goVersion)
		}},
		one("muster_gateway_start_timestamp_seconds", gauge, "When the gateway started.", func(w *whole) float64 { return seconds(w.Started) }),
		maybe("muster_gateway_cpu_seconds_total", counter, "Processor time that the gateway has used.",
			func(w *whole) *float64 { return w.cpuSeconds }),
		maybe("muster_gateway_resident_memory_bytes", gauge, "Memory that the gateway holds.", func(w *whole) *int64 { return w.resident }),
		maybe("muster_gateway_heap_bytes", gauge, "Memory of the gateway's objects.", func(w *whole) *int64 { return w.heap }),
		maybe("muster_gateway_goroutines", gauge, "Goroutines of the gateway.", func(w *whole) *int64 { return w.goroutines }),
		maybe("muster_gateway_open_descriptors", gauge, "Descriptors that the gateway has open.",
			func(w *whole) *int64 { return w.descriptors }),
		one("muster_gateway_descriptors_limit", gauge, "Descriptors that the gateway may have open.",
			func(*whole) float64 { return float64(httpserver.Descriptors()) }),
		one("muster_gateway_database_writable", gauge, "Whether the database takes writes: 1 or 0. 0 is a full disk, as a rule.",
			func(w *whole) float64 { return flag(w.Writable) }),
		maybe("muster_gateway_database_bytes", gauge, "Size of the database.", func(w *whole) *int64 { return w.DatabaseBytes }),
		maybe("muster_gateway_history_bytes", gauge, "Size of the nodes' history.", func(w *whole) *int64 { return w.HistoryBytes }),
		maybe("muster_gateway_history_limit_bytes", gauge, "Size that the history may have. Absent if none is kept.",
			func(w *whole) *int64 { return w.HistoryMost }),
		maybe("muster_gateway_disk_free_bytes", gauge, "Room on the disk of the data directory.",
			func(w *whole) *int64 { return w.DiskFreeBytes }),
		maybe("muster_gateway_disk_size_bytes", gauge, "Size of the disk of the data directory.",
			func(w *whole) *int64 { return w.DiskBytes }),
	}
}

func trafficFamilies() []figure[*whole] {
	return []figure[*whole]{
		one("muster_gateway_heartbeats_total", counter, "Heartbeats that were written.",
			func(w *whole) float64 { return float64(w.Feed.Offered) }),
		one("muster_gateway_feed_waiting", gauge, "Heartbeats that console, history and health have not seen yet.",
			func(w *whole) float64 { return float64(w.Feed.Waiting) }),
		one("muster_gateway_feed_dropped_total", counter, "Heartbeats that console, history and health will not see.",
			func(w *whole) float64 { return float64(w.Feed.Dropped) }),
		one("muster_gateway_feed_behind", gauge, "Whether heartbeats wait for more than 15 seconds, or are dropped: 1 or 0.",
			func(w *whole) float64 { return flag(!w.Feed.Since.IsZero()) }),
		{family{"muster_gateway_connections", gauge, "Open connections from the network, with a proof and without."},
			func(t *text, w *whole) {
				t.say(float64(w.Connections.Open-w.Connections.Unproven), "proof", "yes")
				t.say(float64(w.Connections.Unproven), "proof", "no")
			}},
		one("muster_gateway_connections_limit", gauge, "Connections from the network that there may be.",
			func(w *whole) float64 { return float64(w.Connections.Limits.Network) }),
		{family{"muster_gateway_connections_closed_total", counter, "Connections that the gateway closed, by reason."},
			func(t *text, w *whole) { t.counts("reason", w.Connections.Closed) }},
		{family{"muster_events_total", counter, "Events since the gateway started, refusals among them. See muster help audit-log."}, sayEvents},
	}
}

func workFamilies() []figure[*whole] {
	return []figure[*whole]{
		{family{"muster_tasks", gauge, "Tasks that have not ended, by status."}, sayTasks},
		{family{"muster_rollout_state", gauge, "The state of each channel's newest rollout. Always 1."}, sayRollouts},
		{family{"muster_rollout_nodes", gauge, "Nodes of each channel, by where they stand."}, sayRolloutNodes},
		{family{"muster_gateway_certificate_expiry_timestamp_seconds", gauge, "When certificates of the gateway end."}, sayCertificates},
		{family{"muster_gateway_metrics_failed", gauge, "What could not be found out for this answer. Always 1."},
			func(t *text, w *whole) {
				for _, what := range w.Failed {
					t.say(1, "what", what)
				}
			}},
	}
}

// counts writes numbers by one label, in order.
func (t *text) counts(label string, by map[string]int64) {
	for _, key := range slices.Sorted(maps.Keys(by)) {
		t.say(float64(by[key]), label, key)
	}
}

// sayTasks says 0 if there is none: then the number is known.
func sayTasks(t *text, w *whole) {
	if w.Tasks == nil {
		return
	}
	for _, status := range wire.TaskStatuses() {
		if !wire.TaskEnded(status) {
			t.say(float64(w.Tasks[status]), "status", status)
		}
	}
}

func sayRollouts(t *text, w *whole) {
	for _, r := range w.Rollouts {
		if r.State != "" {
			t.say(1, "channel", r.Channel, "state", r.State)
		}
	}
}

func sayRolloutNodes(t *text, w *whole) {
	for _, r := range w.Rollouts {
		for _, where := range slices.Sorted(maps.Keys(r.Nodes)) {
			t.say(float64(r.Nodes[where]), "channel", r.Channel, "where", where)
		}
	}
}

func sayCertificates(t *text, w *whole) {
	t.certificate("serving", "", w.Serving)
	t.certificate("intermediate", "", w.Intermediate)
	for _, pin := range slices.Sorted(maps.Keys(w.Roots)) {
		at := w.Roots[pin]
		t.certificate("root", pin, &at)
	}
}

func (t *text) certificate(kind, pin string, at *time.Time) {
	if at == nil {
		return
	}
	t.say(seconds(*at), "certificate", kind, "pin", pin)
}

func sayEvents(t *text, w *whole) {
	for _, h := range slices.SortedFunc(maps.Keys(w.events), happening.compare) {
		t.say(float64(w.events[h]), "kind", h.kind, "outcome", h.outcome)
	}
}
