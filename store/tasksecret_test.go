package store_test

import (
	"bytes"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
)

func TestLentSecrets(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	set := func(tenant, name, value string, at time.Time) {
		t.Helper()
		must(t, s.SetLentSecret(ctx, store.LentSecret{Tenant: tenant, Name: name, ChangedAt: at, ChangedBy: "account:" + value}, []byte(value),
			store.Event{At: at, Kind: "secret.set"}))
	}
	set("a", "x", "one", day())
	set("a", "x", "two", after(time.Hour))
	set("b", "x", "three", day())
	for tenant, want := range map[string]string{"a": "two", "b": "three"} {
		if got, err := s.LentSecretValue(ctx, tenant, "x"); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", tenant, got, err)
		}
	}
	_, err := s.LentSecretValue(ctx, "a", "y")
	wantError(t, err, store.ErrNotFound)
	list, err := s.LentSecrets(ctx, "a")
	want := []store.LentSecret{{Tenant: "a", Name: "x", CreatedAt: day(), ChangedAt: after(time.Hour), ChangedBy: "account:two"}}
	if err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v, %v", list, err)
	}
	if all, err := s.LentSecrets(ctx, ""); err != nil || len(all) != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
	must(t, s.DropLentSecret(ctx, "a", "x"))
	wantError(t, s.DropLentSecret(ctx, "a", "x"), store.ErrNotFound)
	if _, err := s.LentSecretValue(ctx, "b", "x"); err != nil {
		t.Errorf("another tenant's secret went too: %v", err)
	}
}

// TestResealLentSecrets: with a new master key the values are the same, and the old key opens nothing.
func TestResealLentSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s := openAt(t, path)
	must(t, s.SetLentSecret(t.Context(), store.LentSecret{Tenant: "a", Name: "x", ChangedAt: day()}, []byte("value")))
	next := bytes.Repeat([]byte{8}, 32)
	must(t, s.Reseal(t.Context(), next))
	_, err := s.LentSecretValue(t.Context(), "a", "x")
	wantError(t, err, engine.ErrSealed)
	reopened, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: next, Now: day})
	must(t, err)
	defer reopened.Close()
	if got, err := reopened.LentSecretValue(t.Context(), "a", "x"); err != nil || string(got) != "value" {
		t.Errorf("got %q, %v", got, err)
	}
}
