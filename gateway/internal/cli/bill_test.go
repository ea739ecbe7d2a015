package cli_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/store"
	"muster/store/costs"
)

// joined makes a node that joined some time ago, at a price.
func (h *house) joined(name, price string, ago time.Duration) {
	h.t.Helper()
	at := h.now.Add(-ago)
	token := store.Token{ID: "mse_" + name, Tenant: "x", Uses: 1, Key: []byte("k"), CreatedAt: at, ExpiresAt: at.Add(time.Hour)}
	err := h.store.CreateToken(h.t.Context(), token)
	if err == nil {
		err = h.store.Enrol(h.t.Context(), store.Enrolment{ID: "e-" + name, Credential: token.ID, ConsumeToken: true, KeyHash: name, At: at,
			Node: store.Node{ID: "id-" + name, Name: name, Tenant: "x", State: wire.StateEnrolled}, NewNode: true,
			AgentLabels: map[string]string{"price_per_hour": price},
			Certificate: store.Certificate{Fingerprint: name, KeyHash: name, PublicKey: []byte(name), Chain: "chain", NotBefore: at,
				NotAfter: h.now.Add(time.Hour), IssuedAt: at}})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestBillOfRecords: a bill goes by the prices that were recorded, and says what idle GPUs had of it.
func TestBillOfRecords(t *testing.T) {
	h := newHouse(t)
	h.joined("a", "5", 48*time.Hour)
	h.joined("b", "1", 48*time.Hour)
	price := int64(2e6)
	records := costs.New(h.store.Records())
	yesterday := costs.DayOf(h.now) - 1
	for day := yesterday - 1; day <= yesterday; day++ {
		rows := []costs.Row{{NodeID: "id-a", Watched: 36_000, Idle: 7200, IdleCost: 1_500_000, Price: &price}}
		if err := records.Save(t.Context(), day, rows); err != nil {
			t.Fatal(err)
		}
	}
	for args, parts := range map[string][]string{
		"node bill": {"48.0   5      126.00  3.00", "48.0   1      48.00   -",
			"174.00, of which idle GPUs 3.00 (watched for 20.0 hours)"},
		"node bill --since 24h":             {"24.0   5      78.00  1.50"}, // of yesterday: the day counts whole
		"node bill --by tenant":             {"TENANT", "2      96.0   174.00"},
		"node bill --tenant none":           {"0 nodes, 0.0 hours: 0.00\n"},
		"node bill --by price_per_hour":     {"48.0   126.00  3.00", "48.0   48.00   -"},
		"node bill -l name=a -o json":       {`"watched_hours":20`, `"idle_gpu_hours":4`, `"idle_cost":3`, `"cost":126`},
		"node bill b":                       {"1 node, 48.0 hours: 48.00\n"},
		"node bill a id-b":                  {"2 nodes, 96.0 hours: "},
		"node bill -l name=b":               {"1 node, 48.0 hours: 48.00\n"},
		"node bill -l name=none --since 1d": {"0 nodes, 0.0 hours: 0.00\n"},
	} {
		out := h.done(strings.Fields(args)...)
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s has no %q:\n%s", args, part, out)
			}
		}
	}
}
