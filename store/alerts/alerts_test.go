package alerts_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"muster/store"
	"muster/store/alerts"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) (alerts.Records, *store.Store) {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	return alerts.New(s.Records()), s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func stale(id, node string) alerts.Alert {
	return alerts.Alert{ID: id, Cause: "node_stale", Subject: node, NodeID: node, NodeName: node, Tenant: "platform", Severity: "warn",
		Text: "silent", Since: start, FiredAt: start, Members: []string{}}
}

// TestWrite: what is written is read again as it was, and a later write takes its place.
func TestWrite(t *testing.T) {
	r, s := open(t)
	a := stale("al-1", "n-1")
	d := alerts.Delivery{Alert: "al-1", Receiver: "ops", Want: "firing", Since: start, NextAt: start, Error: "no answer", Tries: 2}
	k := alerts.Contact{Receiver: "ops", FailedAt: &start, Error: "no answer"}
	event := store.Event{At: start, Kind: "alert.fired", Outcome: store.OutcomeOK}
	must(t, r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{a}, Deliveries: []alerts.Delivery{d}, Contacts: []alerts.Contact{k}},
		event))
	check := func() {
		t.Helper()
		got, err := r.Alerts(t.Context(), 10)
		must(t, err)
		deliveries, err := r.Deliveries(t.Context())
		must(t, err)
		contacts, err := r.Contacts(t.Context())
		must(t, err)
		if len(got) != 1 || !reflect.DeepEqual(got[0], a) {
			t.Errorf("alerts %+v", got)
		}
		if len(deliveries) != 1 || !reflect.DeepEqual(deliveries[0], d) {
			t.Errorf("deliveries %+v", deliveries)
		}
		if len(contacts) != 1 || !reflect.DeepEqual(contacts[0], k) {
			t.Errorf("contacts %+v", contacts)
		}
	}
	check()
	later := start.Add(time.Minute)
	a.ResolvedAt = &later
	a.Text = "silent for a minute"
	a.Members = []string{"n-1", "n-2"}
	d = alerts.Delivery{Alert: "al-1", Receiver: "ops", Want: "resolved", Told: "firing", Since: later, NextAt: later, ToldAt: &later,
		GaveUp: true}
	k = alerts.Contact{Receiver: "ops", SentAt: &later}
	must(t, r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{a}, Deliveries: []alerts.Delivery{d}, Contacts: []alerts.Contact{k}}))
	check()
	if events, err := s.Events(t.Context(), store.EventQuery{Kind: "alert.fired"}); err != nil || len(events) != 1 {
		t.Errorf("events %v, error %v", events, err)
	}
}

// TestOneOpen: a second open alert of one cause and subject is refused, and a resolved one never opens again.
func TestOneOpen(t *testing.T) {
	r, _ := open(t)
	first := stale("al-1", "n-1")
	must(t, r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{first}}))
	if err := r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{stale("al-2", "n-1")}}); err == nil {
		t.Error("a second one is open")
	}
	first.ResolvedAt = &start
	must(t, r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{first}}))
	first.ResolvedAt = nil
	must(t, r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{first, stale("al-2", "n-1")}}))
	got, err := r.Alerts(t.Context(), 10)
	if err != nil || len(got) != 2 || got[0].ResolvedAt == nil || got[1].ResolvedAt != nil {
		t.Errorf("%+v, error %v", got, err)
	}
}

// TestPrune: the resolved ones go when they are old or too many, and what was told of them goes with them.
func TestPrune(t *testing.T) {
	r, _ := open(t)
	var c alerts.Change
	for i := range 5 {
		a := stale(fmt.Sprintf("al-%d", i), fmt.Sprintf("n-%d", i))
		if i > 0 {
			at := start.Add(time.Duration(i) * time.Hour)
			a.ResolvedAt = &at
		}
		c.Alerts = append(c.Alerts, a)
		c.Deliveries = append(c.Deliveries, alerts.Delivery{Alert: a.ID, Receiver: "ops", Since: start, NextAt: start})
	}
	must(t, r.Write(t.Context(), c))
	if got, err := r.Alerts(t.Context(), 2); err != nil || len(got) != 3 || got[0].ID != "al-0" || got[2].ID != "al-4" {
		t.Errorf("the newest two: %+v, error %v", got, err)
	}
	must(t, r.Prune(t.Context(), start.Add(2*time.Hour), 2))
	got, err := r.Alerts(t.Context(), 10)
	must(t, err)
	left, err := r.Deliveries(t.Context())
	must(t, err)
	if len(got) != 3 || len(left) != 3 || left[0].Alert != "al-0" || left[1].Alert != "al-3" || left[2].Alert != "al-4" {
		t.Errorf("%+v, deliveries %+v", got, left)
	}
}

// TestReceivers: a receiver is a sealed secret; with it goes what is kept of it.
func TestReceivers(t *testing.T) {
	r, s := open(t)
	must(t, s.SetSecret(t.Context(), alerts.SecretName("ops"), []byte("x")))
	must(t, s.SetSecret(t.Context(), "another", []byte("x")))
	must(t, r.Write(t.Context(), alerts.Change{Contacts: []alerts.Contact{{Receiver: "ops"}},
		Deliveries: []alerts.Delivery{{Alert: "al-1", Receiver: "ops", Since: start, NextAt: start}}}))
	if names, err := r.Receivers(t.Context()); err != nil || len(names) != 1 || names[0] != "ops" {
		t.Errorf("%v, error %v", names, err)
	}
	must(t, r.DropReceiver(t.Context(), "ops", store.Event{At: start, Kind: "test"}))
	if err := r.DropReceiver(t.Context(), "ops"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
	names, err := r.Receivers(t.Context())
	must(t, err)
	deliveries, err := r.Deliveries(t.Context())
	must(t, err)
	contacts, err := r.Contacts(t.Context())
	must(t, err)
	if len(names)+len(deliveries)+len(contacts) != 0 {
		t.Errorf("left: %v %v %v", names, deliveries, contacts)
	}
}

// TestSilences: they end by themselves or by a person of the tenant, and there are not too many.
func TestSilences(t *testing.T) {
	r, _ := open(t)
	one := alerts.Silence{ID: "si-1", NodeID: "n-1", NodeName: "gpu-1", Selector: "tier=lab", Cause: "node_stale", Tenant: "platform",
		Reason: "work on the power", CreatedAt: start, CreatedBy: "account:ops", EndsAt: start.Add(time.Hour)}
	must(t, r.AddSilence(t.Context(), one))
	got, err := r.Silences(t.Context(), start)
	if err != nil || len(got) != 1 || got[0] != one {
		t.Errorf("%+v, error %v", got, err)
	}
	if got, err = r.Silences(t.Context(), one.EndsAt); err != nil || len(got) != 0 {
		t.Errorf("after its end: %+v, error %v", got, err)
	}
	if err := r.DropSilence(t.Context(), "si-1", "other", start); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
	must(t, r.DropSilence(t.Context(), "si-1", "platform", start))
	if err := r.DropSilence(t.Context(), "si-1", "", start); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
	ends := start.Add(time.Hour)
	for i := range alerts.MostOfTenant {
		must(t, r.AddSilence(t.Context(), alerts.Silence{ID: fmt.Sprint("t", i), Tenant: "platform", CreatedAt: start, EndsAt: ends}))
	}
	more := alerts.Silence{ID: "more", Tenant: "platform", CreatedAt: start, EndsAt: ends}
	if err := r.AddSilence(t.Context(), more); !errors.Is(err, store.ErrConflict) {
		t.Errorf("one too many of a tenant: %v", err)
	}
	more.Tenant = "other"
	must(t, r.AddSilence(t.Context(), more))
	for i := range alerts.MostSilences - alerts.MostOfTenant - 1 {
		must(t, r.AddSilence(t.Context(), alerts.Silence{ID: fmt.Sprint(i), CreatedAt: start, EndsAt: ends}))
	}
	if err := r.AddSilence(t.Context(), alerts.Silence{ID: "x", CreatedAt: start}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("one too many: %v", err)
	}
}

// TestTold: what was told after a backup is read from the database that went on from it, and takes the place of what the backup has.
func TestTold(t *testing.T) {
	r, s := open(t)
	must(t, s.SetSecret(t.Context(), alerts.SecretName("ops"), []byte("x")))
	before := stale("al-1", "n-1")
	must(t, r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{before}}))
	must(t, s.NoteBackup(t.Context(), start))
	dir := t.TempDir()
	copied := filepath.Join(dir, "copy.db")
	must(t, s.Backup(t.Context(), copied))

	over := before
	over.ResolvedAt = &start
	since := stale("al-2", "n-1") // of the same cause and subject as the one that is open in the backup
	told := alerts.Delivery{Alert: "al-2", Receiver: "ops", Want: "firing", Told: "firing", Since: start, NextAt: start, ToldAt: &start}
	gone := told
	gone.Receiver = "removed"
	must(t, r.Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{over, since}, Deliveries: []alerts.Delivery{told, gone}}))
	file := filepath.Join(dir, "went-on.db")
	must(t, s.Backup(t.Context(), file))

	c, err := alerts.Told(t.Context(), file, start)
	if err != nil || c == nil || len(c.Alerts) != 2 || len(c.Deliveries) != 2 {
		t.Fatalf("got %+v, %v", c, err)
	}
	if c, err := alerts.Told(t.Context(), file, start.Add(time.Second)); c != nil || err != nil {
		t.Errorf("of a backup that it does not know: %+v, %v", c, err)
	}
	if _, err := alerts.Told(t.Context(), filepath.Join(dir, "none.db"), start); err == nil {
		t.Error("of no file")
	}
	restored, err := store.Open(t.Context(), store.Options{Path: copied, MasterKey: bytes.Repeat([]byte{7}, 32)})
	must(t, err)
	defer restored.Close()
	now := alerts.New(restored.Records())
	must(t, now.Replace(t.Context(), *c))
	all, err := now.Alerts(t.Context(), 10)
	must(t, err)
	deliveries, err := now.Deliveries(t.Context())
	must(t, err)
	if len(all) != 2 || all[0].ResolvedAt == nil || all[1].ID != "al-2" || all[1].ResolvedAt != nil ||
		len(deliveries) != 1 || !reflect.DeepEqual(deliveries[0], told) {
		t.Errorf("got %+v, %+v", all, deliveries)
	}
}
