package cli_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit"
	"muster/store"
)

// enrol makes a node with a certificate, its successor, and two runs of agents.
func (h *house) enrol(name string) {
	h.t.Helper()
	ctx := h.t.Context()
	at := h.now.Add(-20 * time.Hour)
	certificate := func(fingerprint string, generation int) store.Certificate {
		return store.Certificate{Fingerprint: fingerprint, NodeID: "id-" + name, EnrolmentID: "e-1", Generation: generation,
			KeyHash:   "key-" + fingerprint,
			PublicKey: []byte(fingerprint), NotBefore: at, NotAfter: at.Add(24 * time.Hour), IssuedAt: at}
	}
	first := certificate(strings.Repeat("1a", 32), 1)
	second := certificate(strings.Repeat("2b", 32), 2)
	second.Recovery = true
	psk := store.PSK{ID: "psk-1", Key: []byte{1}, CreatedAt: at}
	beat := store.Beat{NodeID: "id-" + name, At: h.now, RunID: "bbbbbbbbbb", Counter: 1, Interval: 30 * time.Second, Enrolment: "e-1",
		Runs: []store.Run{
			{ID: "aaaaaaaaaa", Fingerprint: first.Fingerprint, Address: "192.0.2.7", Counter: 9, First: at, Last: h.now.Add(-time.Minute)},
			{ID: "bbbbbbbbbb", Fingerprint: second.Fingerprint, Address: "198.51.100.9", Counter: 1, First: h.now, Last: h.now}}}
	for _, err := range []error{
		h.store.SetPSK(ctx, psk),
		h.store.Enrol(ctx, store.Enrolment{ID: "e-1", Credential: psk.ID, KeyHash: "key-1", At: at, NewNode: true, Certificate: first,
			Node: store.Node{ID: "id-" + name, Name: name, Tenant: "platform", State: "active"}}),
		h.store.AddCertificate(ctx, second, first.Fingerprint),
		h.store.PromoteCertificate(ctx, second.Fingerprint, h.now.Add(-4*time.Hour)),
		h.store.SaveBeats(ctx, []store.Beat{beat}, h.now),
	} {
		if err != nil {
			h.t.Fatal(err)
		}
	}
	if _, err := h.store.MarkOverdue(ctx, h.now, "renewal.overdue", "gateway"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) conflict(name string) {
	h.t.Helper()
	err := h.store.MoveNode(h.t.Context(), store.Move{NodeID: "id-" + name, From: "active", To: "unavailable", At: h.now,
		AddReasons: []store.Reason{{Reason: "identity_conflict", Since: h.now}}})
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestIdentityShown(t *testing.T) {
	h := newHouse(t)
	h.enrol("box")
	if list := h.done("node", "ls"); !strings.Contains(list, "active (renewal overdue)") {
		t.Errorf("node ls does not mark an overdue renewal:\n%s", list)
	}
	h.conflict("box")
	kit.Golden(t, "node-show-conflict.golden", h.done("node", "show", "box"))
}

func TestAllowRecovery(t *testing.T) {
	good := strings.Repeat("1a", 32)
	for _, c := range []struct {
		name, args     string
		conflict       bool
		code           int
		stdout, stderr string
	}{
		{"an hour", "box", false, 0, "box: it may come back until 2026-11-21T11:00:00Z\n", ""},
		{"longer", "box --for 2d", false, 0, "until 2026-11-23T10:00:00Z", ""},
		{"by selector", "-l tenant=platform", false, 0, "box: it may come back", "1 node: box"},
		{"the good one", "box --fingerprint " + good, true, 0,
			"box: certificate 1a1a1a1a1a1a1a1a is the good one, all others are revoked; it may", ""},
		{"the beginning of it", "box --fingerprint 1a1a1a1a", true, 0, "certificate 1a1a1a1a1a1a1a1a is the good one", ""},
		{"in conflict without saying which", "box", true, 1, "", "--fingerprint F"},
		{"none of its certificates", "box --fingerprint 3c3c3c3c3c3c3c3c", true, 1, "", "has 0 certificates"},
		{"too long", "box --for 30d", false, 1, "", "between a minute and 7 days"},
		{"no duration", "box --for soon", false, 2, "", "no duration"},
		{"two nodes, one fingerprint", "box other --fingerprint " + good, false, 2, "", "name one node"},
		{"nobody", "nobody", false, 1, "", "no node is called"},
		{"which", "", false, 2, "", "which nodes?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.enrol("box")
			if c.conflict {
				h.conflict("box")
			}
			code, stdout, stderr := h.muster(append([]string{"node", "allow-recovery"}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
			}
			if c.code == 0 && c.conflict {
				if list := h.done("node", "ls", "-o", "wide"); !strings.Contains(list, "active") ||
					strings.Contains(list, "identity_conflict") {
					t.Errorf("the conflict goes on:\n%s", list)
				}
			}
		})
	}
}
