package provider_test

import (
	"errors"
	"testing"
	"time"

	"muster/store"
	"muster/store/provider"
)

// TestAccounts: what is stored is read, and a limit is the account's.
func TestAccounts(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	a := account("a")
	a.Limit = ptr(int64(5_000_000))
	must(t, r.AddAccount(t.Context(), a, store.Event{At: start, Kind: "provider.added"}))
	must(t, r.AddAccount(t.Context(), account("b")))
	wantError(t, "the name again", r.AddAccount(t.Context(), account("a")), store.ErrConflict)
	must(t, r.Failed(t.Context(), "a", after(time.Minute), "HTTP 500"))
	must(t, r.Failed(t.Context(), "a", after(time.Hour), "HTTP 502"))
	list, err := r.Accounts(t.Context())
	must(t, err)
	if len(list) != 2 || list[1].Limit != nil || list[1].FailedAt != nil || list[0].SyncedAt != nil {
		t.Fatalf("got %+v", list)
	}
	got := list[0]
	wantSame(t, "since when and why", []any{*got.FailedAt, got.Error, *got.Limit}, []any{after(time.Minute), "HTTP 502", 5_000_000})
	got.FailedAt, got.Error, got.Limit = nil, "", nil
	wantSame(t, "the account", got, account("a"))

	_, err = r.SaveView(t.Context(), "a", after(2*time.Hour), nil, store.Event{At: start, Kind: "provider.works"})
	must(t, err)
	list, err = r.Accounts(t.Context())
	must(t, err)
	if list[0].FailedAt != nil || list[0].Error != "" || !list[0].SyncedAt.Equal(after(2*time.Hour)) {
		t.Errorf("after a view: %+v", list[0])
	}
	_, err = r.SaveView(t.Context(), "c", start, nil)
	for what, err := range map[string]error{
		"view": err, "failure": r.Failed(t.Context(), "c", start, ""), "limit": r.SetLimit(t.Context(), "c", ptr(int64(1)), start, ""),
		"removal": r.RemoveAccount(t.Context(), "c"),
	} {
		wantError(t, what+" of no account", err, store.ErrNotFound)
	}
}

// TestRemoveAccount: it goes with its key and all that it has shown, and not while something is rented of it.
func TestRemoveAccount(t *testing.T) {
	t.Parallel()
	r, s := open(t, "a", "b")
	must(t, s.SetSecret(t.Context(), provider.SecretName("a"), []byte("key")))
	must(t, s.SetSecret(t.Context(), provider.SecretName("b"), []byte("key")))
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(9)), start, "account:ops"))
	view(t, r, "a", instance("1", "stopped", 1))
	view(t, r, "b", instance("1", "stopped", 1))
	must(t, r.SetFindings(t.Context(), []provider.Finding{{Account: "a", Kind: "provider_unknown", Since: start}}, nil))

	l := lease("a", "1", "")
	must(t, r.PutLease(t.Context(), l))
	wantError(t, "with a lease", r.RemoveAccount(t.Context(), "a"), store.ErrConflict)
	l.State, l.EndedAt, l.Version = "ended", &start, 1
	must(t, r.PutLease(t.Context(), l))

	request(t, r, "q", "a", "platform", 1)
	wantError(t, "with a request", r.RemoveAccount(t.Context(), "a"), store.ErrConflict)
	must(t, r.SetLimit(t.Context(), "a", nil, start, "account:ops"))
	must(t, r.Intend(t.Context(), rental("r", 1, 5)))
	must(t, r.EndRequest(t.Context(), "q", "done", "", start))
	wantError(t, "with a rental", r.RemoveAccount(t.Context(), "a"), store.ErrConflict)
	must(t, change(t, r, "r", func(x *provider.Rental) { x.State, x.Instance = "ended", "2" }))
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(9)), start, "account:ops"))
	named := instance("3", "stopped", 1)
	named.Name = provider.NamePrefix + "r"
	for what, i := range map[string]provider.Instance{"by its id": instance("2", "stopped", 1), "by its name": named} {
		view(t, r, "a", instance("1", "stopped", 1), i)
		kept, err := r.Kept(t.Context(), "a")
		must(t, err)
		wantSame(t, "kept "+what, kept, []string{i.ID})
		wantError(t, "with a stopped machine that was rented, "+what, r.RemoveAccount(t.Context(), "a"), store.ErrConflict)
		view(t, r, "a", instance("1", "stopped", 1))
		wantError(t, "when one view leaves it out, "+what, r.RemoveAccount(t.Context(), "a"), store.ErrConflict)
		view(t, r, "a", instance("1", "stopped", 1))
		must(t, r.Gone(t.Context(), "a", i.ID, start))
	}

	must(t, r.RemoveAccount(t.Context(), "a", store.Event{At: start, Kind: "provider.removed"}))
	_, err := s.Secret(t.Context(), provider.SecretName("a"))
	wantError(t, "the key", err, store.ErrNotFound)
	_, err = s.Secret(t.Context(), provider.SecretName("b"))
	must(t, err)
	limits, err := r.Limits(t.Context())
	must(t, err)
	findings, err := r.Findings(t.Context())
	must(t, err)
	must(t, r.AddAccount(t.Context(), account("a")))
	shown := listed(t, r, "a")
	wantSame(t, "left of it", []int{len(limits), len(findings), len(shown)}, []int{0, 0, 0})
	if other := listed(t, r, "b"); len(other) != 1 {
		t.Errorf("of the other account: %v", other)
	}
	for what, err := range map[string]error{
		"lease":   r.PutLease(t.Context(), lease("c", "1", "")),
		"request": r.PutRequest(t.Context(), provider.Request{ID: "q2", Account: "c"}),
		"rental":  r.Intend(t.Context(), provider.Rental{ID: "r2", Request: "q", Account: "c", Price: 1}),
	} {
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("a %s of no account: %v", what, err)
		}
	}
}
