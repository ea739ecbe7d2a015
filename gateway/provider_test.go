package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/gateway/api/providers"
	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/vast"
)

// TestProviderView: a machine that somebody has rented is shown with its price and never touched. A company that refuses, or answers with a
// page for people, does not make it go: the last view stays, with its age and the reason. Nothing secret is shown or kept in the open.
func TestProviderView(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, nil, nil, offered(2, 1)...)
	id, err := m.sim.Rent(101, "by hand")
	if err != nil {
		t.Fatal(err)
	}
	m.muster("provider", "sync", "vast_ai")
	for _, fault := range []cloudsim.Fault{{Kind: cloudsim.HTML, Status: http.StatusForbidden},
		{Kind: cloudsim.Status, Status: http.StatusUnauthorized, Text: `{"success":false,"error":"auth_error","msg":"Invalid user key"}`}} {
		m.sim.Add(fault)
		if code, _, errs := m.try("provider", "sync", "vast_ai"); code != exitFailed || strings.Contains(errs, companyKey) {
			t.Errorf("%+v: exit %d\n%s", fault, code, errs)
		}
		seen := bazaarAnswer[providers.InstanceList](m, "provider", "instances", "vast_ai", "-o", "json")
		if len(seen.Instances) != 1 || seen.Instances[0].ID != id || seen.SyncedAt == nil || *seen.Instances[0].PerHour != 200.0016 {
			t.Errorf("%+v: %+v", fault, seen)
		}
		if a := bazaarAnswer[providers.Account](m, "provider", "show", "vast_ai", "-o", "json"); a.Error == "" || a.FailedAt == nil {
			t.Errorf("%+v: %+v", fault, a)
		}
		m.sim.Heal()
	}
	m.muster("provider", "sync", "vast_ai")
	if a := bazaarAnswer[providers.Account](m, "provider", "show", "vast_ai", "-o", "json"); a.Error != "" || !a.Known {
		t.Errorf("after that: %+v", a)
	}
	code, _, errs := m.try("provider", "add", "vast_ai", "--name", "other", "--key-file", m.key("key-of-nobody-1234"), "--url", m.api)
	if code != exitFailed || !strings.Contains(errs, "does not take this key") {
		t.Errorf("a wrong key: exit %d\n%s", code, errs)
	}
	if live := m.there(); len(live) != 1 || m.sim.Calls(vast.Destroy)+m.sim.Calls(vast.Manage)+m.sim.Calls(vast.Create) != 0 {
		t.Errorf("it was touched: %+v", live)
	}
	secretsStay(t, m)
}

// secretsStay checks that the key and the company's secrets are in no file of the gateway and in nothing that it shows.
func secretsStay(t *testing.T, m *bazaar) {
	t.Helper()
	check := func(where, text string) {
		for _, secret := range []string{companyKey, vast.Secret} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s", where, secret)
			}
		}
	}
	check("the log", m.gateway.text())
	for _, args := range [][]string{{"events", "-o", "json"}, {"provider", "instances", "-o", "json"}, {"provider", "ls", "-o", "json"}} {
		check(strings.Join(args, " "), m.muster(args...))
	}
	err := filepath.WalkDir(m.data, func(path string, _ os.DirEntry, err error) error {
		raw, _ := os.ReadFile(path)
		check(path, string(raw))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestProviderLimit: what would pass a spending limit is refused before the company is asked for anything, and so is what is too dear.
func TestProviderLimit(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, nil, nil, offered(2, 1)...)
	m.muster("provider", "limit", "vast_ai", "400")
	for args, says := range map[string]string{"--count=2 --max-price=250": "limit", "--count=1 --max-price=199": "pay more"} {
		code, out, errs := m.try(append([]string{"rent", "--provider", "vast_ai", "--gpu", "H100", "--ttl", "1h", "--yes"},
			strings.Fields(args)...)...)
		if code != exitFailed || !strings.Contains(errs, says) {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, errs)
		}
	}
	if all := m.sim.Machines(); len(all) != 0 || m.sim.Calls(vast.Create) != 0 {
		t.Errorf("rented: %+v", all)
	}
}

// TestProviderForgotten: an account whose key is dead goes with its leases when somebody says so, with an event. What runs there is not
// touched, also not when the account comes back.
func TestProviderForgotten(t *testing.T) {
	t.Parallel()
	m := newBazaar(t, nil, nil, offered(1, 1)...)
	id, err := m.sim.Rent(101, "by hand")
	if err != nil {
		t.Fatal(err)
	}
	m.muster("provider", "sync", "vast_ai")
	m.muster("lease", "set", "vast_ai/"+id, "1m", "--act", "destroy")
	remove := []string{"provider", "remove", "vast_ai", "--yes"}
	forget := append(slices.Clone(remove), "--forget-machines")
	if code, _, errs := m.try(forget...); code != exitFailed || !strings.Contains(errs, "the key of the account vast_ai works") {
		t.Errorf("while it works: exit %d\n%s", code, errs)
	}
	m.sim.Add(cloudsim.Fault{Kind: cloudsim.Status, Status: http.StatusUnauthorized,
		Text: `{"success":false,"error":"auth_error","msg":"Invalid user key"}`})
	if code, _, errs := m.try(remove...); code != exitFailed || !strings.Contains(errs, "--forget-machines") {
		t.Errorf("without the word: exit %d\n%s", code, errs)
	}
	if out := m.muster(forget...); !strings.Contains(out, "vast_ai/"+id+": 1x H100 SXM, running") || !strings.Contains(out, "is forgotten") {
		t.Errorf("forgotten:\n%s", out)
	}
	if out := m.muster("lease", "ls", "--all", "-o", "json"); !strings.Contains(out, `"why":"given up: account removed"`) {
		t.Errorf("its lease:\n%s", out)
	}
	if out := m.muster("audit", "-o", "json"); !strings.Contains(out, "provider.removed") || !strings.Contains(out, `"instances":"`+id+`"`) {
		t.Errorf("the events:\n%s", out)
	}
	m.sim.Heal()
	m.muster("provider", "add", "vast_ai", "--key-file", m.key(companyKey), "--url", m.api)
	m.muster("provider", "sync", "vast_ai")
	if live := m.there(); len(live) != 1 || m.sim.Calls(vast.Destroy)+m.sim.Calls(vast.Manage) != 0 {
		t.Errorf("it was touched: %+v", live)
	}
	secretsStay(t, m)
}
