package market_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
	rentals "muster/store/provider"
)

// TestRemove: an account is forgotten with its key, but not while machines of it are under a lease.
func TestRemove(t *testing.T) {
	h := added(t)
	h.cloud.shows(machine("1"))
	h.sees()
	l := rentals.Lease{Account: cloud.Vast, Instance: "1", State: providers.LeaseLive, Act: providers.ActStop, EndsAt: h.now, CreatedAt: h.now}
	h.must(h.records.PutLease(t.Context(), l))
	code, text := refused(h.Remove(t.Context(), cloud.Vast, operator))
	if code != wire.CodeIllegalMove || !strings.Contains(text, "muster lease ls --provider vast_ai") || len(h.Accounts()) != 1 {
		t.Errorf("%s %s", code, text)
	}
	l.Version, l.State, l.EndedAt = 1, providers.LeaseEnded, &h.now
	h.must(h.records.PutLease(t.Context(), l))
	rented := rentals.Rental{ID: "r", Request: "q", Number: 1, Account: cloud.Vast, Tenant: "platform", Price: 1, CreatedAt: h.now}
	h.must(h.records.PutRequest(t.Context(), rentals.Request{ID: "q", Account: cloud.Vast, Tenant: "platform", State: "renting", Want: "{}",
		Count: 1, CreatedAt: h.now}))
	h.must(h.records.Intend(t.Context(), rented))
	rented.Version, rented.State, rented.Instance = 1, providers.RentalEnded, "1"
	h.must(h.records.PutRental(t.Context(), rented))
	h.must(h.records.EndRequest(t.Context(), "q", providers.RentedDone, "", h.now))
	code, text = refused(h.Remove(t.Context(), cloud.Vast, operator))
	if code != wire.CodeIllegalMove || !strings.Contains(text, "charges: 1") ||
		!strings.Contains(text, "muster provider destroy vast_ai/1") {
		t.Errorf("%s %s", code, text)
	}
	h.cloud.shows()
	h.sees()
	h.cloud.get = noSuch
	h.sees()
	h.must(h.Remove(t.Context(), cloud.Vast, operator))
	if _, err := h.store.Secret(t.Context(), rentals.SecretName(cloud.Vast)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the key stays: %v", err)
	}
	if e := h.events("provider.removed"); len(e) != 1 || !e[0].Security {
		t.Errorf("got events %+v", e)
	}
	for name, err := range map[string]error{
		"remove": h.Remove(t.Context(), cloud.Vast, operator), "sync": h.Sync(t.Context(), cloud.Vast),
		"limit": h.SetLimit(t.Context(), cloud.Vast, providers.SpendingLimit{}, operator),
	} {
		if code, _ := refused(err); code != wire.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Cloud(cloud.Vast); err == nil {
		t.Error("it can still be asked")
	}
	if all, at, known := h.Instances(cloud.Vast); all != nil || at != nil || known {
		t.Error("it still has instances")
	}
}

// TestForget: an account goes with its machines only where its company cannot be asked any more. That is certain of a key that is refused,
// and of one that is not there; else it takes a day. Nobody who comes meanwhile is surprised by it.
func TestForget(t *testing.T) {
	leased := func() *house {
		h := added(t)
		h.cloud.shows(machine("1"), machine("2"))
		h.sees()
		h.must(h.records.PutLease(t.Context(), rentals.Lease{Account: cloud.Vast, Instance: "1", State: providers.LeaseLive,
			Act: providers.ActDestroy, EndsAt: h.now, CreatedAt: h.now}))
		return h
	}
	keeps := func(h *house, what, says string) {
		t.Helper()
		if code, text := refused(h.Forget(t.Context(), cloud.Vast, operator)); code != wire.CodeIllegalMove || !strings.Contains(text, says) ||
			len(h.Accounts()) != 1 {
			t.Errorf("%s: %s %s", what, code, text)
		}
	}
	goes := func(h *house, what string) {
		t.Helper()
		h.must(h.Forget(t.Context(), cloud.Vast, operator))
		e := h.events("provider.removed")
		if len(e) != 1 || !e[0].Security || e[0].Actor != operator.Name || e[0].Detail["forgotten"] != "2" || e[0].Detail["instances"] != "1 2" {
			t.Errorf("%s: got events %+v", what, e)
		}
		l, err := h.records.Lease(t.Context(), cloud.Vast, "1")
		if err != nil || l.State != providers.LeaseEnded || l.Why != "given up: account removed" || len(h.Accounts()) != 0 {
			t.Errorf("%s: %+v, %v, and %d accounts", what, l, err, len(h.Accounts()))
		}
		if code, _ := refused(h.Forget(t.Context(), cloud.Vast, operator)); code != wire.CodeNotFound {
			t.Errorf("%s, again: %s", what, code)
		}
		hidden(h)
	}
	h := leased()
	keeps(h, "one that works", "works, so that its machines can be given back")
	h.cloud.fails(cloud.Unclear)
	keeps(h, "one whose company is down", "does not refuse the key")
	h.now = h.now.Add(23 * time.Hour)
	keeps(h, "one whose company is down for some time", "does not refuse the key")
	h.cloud.shows(machine("1"), machine("2"))
	keeps(h, "one that works again", "works, so that")
	h.cloud.fails(cloud.KeyRefused)
	goes(h, "a refused key")

	h = leased()
	h.cloud.fails(cloud.Unclear)
	h.sees()
	h.now = h.now.Add(24 * time.Hour)
	goes(h, "a company that does not answer for a day")

	h = leased()
	h.must(h.store.DropSecret(t.Context(), rentals.SecretName(cloud.Vast)))
	h.open()
	goes(h, "a key that is not there")

	h = leased()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Forget(gone, cloud.Vast, operator); !errors.Is(err, context.Canceled) || len(h.Accounts()) != 1 {
		t.Errorf("a caller who goes away: %v", err)
	}
}

// TestForgetSlow: an account whose pages take too long is not asked for longer than its caller waits, and goes after a day too.
func TestForgetSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := added(t)
		h.cloud.takes = 11 * time.Minute
		if err := h.Sync(t.Context(), cloud.Vast); err == nil {
			t.Fatal("it has a view")
		}
		asked, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		code, text := refused(h.Forget(asked, cloud.Vast, operator))
		if code != wire.CodeIllegalMove || !strings.Contains(text, "took longer than 30s") || len(h.Accounts()) != 1 {
			t.Errorf("after a moment: %s %s", code, text)
		}
		h.now = h.now.Add(24 * time.Hour)
		asked, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h.must(h.Forget(asked, cloud.Vast, operator))
		if len(h.Accounts()) != 0 {
			t.Error("after a day it is there still")
		}
	})
}
