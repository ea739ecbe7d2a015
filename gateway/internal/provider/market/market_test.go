package market_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// fake is a company of functions.
type fake struct {
	market.Cloud // what is not asked
	list         func(take func([]cloud.Instance)) error
	get          func(id string) (cloud.Instance, error)
	takes        time.Duration // a list
}

func (f *fake) List(ctx context.Context, take func([]cloud.Instance)) error {
	if f.takes > 0 {
		select {
		case <-time.After(f.takes):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.list(take)
}

func (f *fake) Get(_ context.Context, id string) (cloud.Instance, error) { return f.get(id) }

// shows has the company show instances, all on one page.
func (f *fake) shows(all ...cloud.Instance) {
	f.list = func(take func([]cloud.Instance)) error { take(slices.Clone(all)); return nil }
}

func (f *fake) fails(kind string) {
	f.list = func(take func([]cloud.Instance)) error {
		take([]cloud.Instance{machine("half")}) // a page that came before proves nothing
		return &cloud.Error{Kind: kind, Status: 503, Text: "key k-secret-1 is bad", Again: 3 * time.Minute}
	}
}

func noSuch(string) (cloud.Instance, error) {
	return cloud.Instance{}, &cloud.Error{Kind: cloud.NoSuch}
}

func to[T any](v T) *T { return &v }

// machine is one that runs for a dollar an hour.
func machine(id string, change ...func(*cloud.Instance)) cloud.Instance {
	i := cloud.Instance{ID: id, State: cloud.Running, Raw: "running", Price: to(cloud.Dollar)}
	for _, c := range change {
		c(&i)
	}
	return i
}

var operator = store.Actor{Name: "operator:socket", Address: "192.0.2.1"}

// house is a Service on a store of its own, with a company.
type house struct {
	*market.Service
	t       testing.TB
	store   *store.Store
	records rentals.Records
	cloud   *fake
	now     time.Time
	mu      sync.Mutex
	dials   []market.Dial
	changed int
	log     bytes.Buffer
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), cloud: &fake{get: noSuch}}
	h.cloud.shows()
	h.store = kit.Store(t, func() time.Time { return h.now })
	h.records = rentals.New(h.store.Records())
	h.open()
	return h
}

func (h *house) open() {
	h.t.Helper()
	var err error
	h.Service, err = market.Open(h.t.Context(), market.Config{Store: h.store, Records: h.records, Now: func() time.Time { return h.now },
		Dial: func(kind string, d market.Dial) (market.Cloud, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if strings.Contains(d.Key, "undialable") {
				return nil, fmt.Errorf("the key %s cannot be used", d.Key)
			}
			h.dials = append(h.dials, d)
			return h.cloud, nil
		},
		Changed: func() { h.mu.Lock(); defer h.mu.Unlock(); h.changed++ },
		Logger:  slog.New(slog.NewTextHandler(&h.log, nil))})
	h.must(err)
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// added has an account vast_ai.
func added(t testing.TB) *house {
	t.Helper()
	h := newHouse(t)
	_, err := h.Add(t.Context(), providers.Request{Kind: cloud.Vast, Key: "k-secret-1"}, operator)
	h.must(err)
	return h
}

// sees syncs, and says what is seen then: ids with states, and whether that is of now.
func (h *house) sees() string {
	h.t.Helper()
	h.now = h.now.Add(time.Minute)
	err := h.Sync(h.t.Context(), cloud.Vast)
	all, at, known := h.Instances(cloud.Vast)
	var words []string
	for _, s := range all {
		words = append(words, s.ID+" "+s.State)
	}
	text := strings.Join(words, ", ")
	if err != nil {
		text += " !"
	}
	if at == nil {
		text += " never"
	}
	if !known {
		text += " old"
	}
	return strings.TrimSpace(text)
}

// events are those of a kind, the newest first.
func (h *house) events(kind string) []store.Event {
	h.t.Helper()
	all, err := h.store.Events(h.t.Context(), store.EventQuery{Kind: kind})
	h.must(err)
	return all
}

func refused(err error) (code, text string) {
	var d *wire.ErrorDetail
	if !errors.As(err, &d) {
		return fmt.Sprint(err), ""
	}
	return d.Code, d.Message + "; " + d.Hint
}

// TestAdd: an account whose key works is there, with its key sealed and nowhere shown, also after a start.
func TestAdd(t *testing.T) {
	h := newHouse(t)
	h.cloud.shows(machine("1"), machine("2"))
	p, err := h.Add(t.Context(), providers.Request{Kind: cloud.Vast, Name: "lab-vast", Tenant: "lab", Key: " k-secret-1\n", SSHKey: "laptop",
		URL: "http://127.0.0.1:9"}, operator)
	h.must(err)
	want := providers.Account{Name: "lab-vast", Kind: cloud.Vast, Tenant: "lab", URL: "http://127.0.0.1:9", CreatedAt: h.now,
		CreatedBy: operator.Name}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	h.open()
	if d := h.dials[len(h.dials)-1]; d != (market.Dial{URL: "http://127.0.0.1:9", Key: "k-secret-1"}) {
		t.Errorf("after a start it is dialled with %+v", d)
	}
	h.must(h.Sync(t.Context(), "lab-vast"))
	p, err = h.Show("lab-vast", "lab")
	if err != nil || *p.Instances != 2 || !p.Known || !p.SyncedAt.Equal(h.now) {
		t.Errorf("got %+v, %v", p, err)
	}
	e := h.events("provider.added")
	if len(e) != 1 || !e[0].Security || e[0].Tenant != "lab" || e[0].Actor != operator.Name || e[0].Address != operator.Address ||
		e[0].Detail["provider"] != "lab-vast" {
		t.Errorf("got events %+v", e)
	}
	for tenant, n := range map[string]int{"": 1, "lab": 1, "other": 0} {
		if got := len(h.List(tenant)); got != n {
			t.Errorf("the tenant %q sees %d accounts", tenant, got)
		}
	}
	if _, err := h.Show("lab-vast", "other"); err == nil {
		t.Error("another tenant sees it")
	}
	hidden(h)
}

// hidden looks for the key wherever it must not be.
func hidden(h *house) {
	h.t.Helper()
	shown, err := json.Marshal(h.List(""))
	h.must(err)
	copied := h.t.TempDir() + "/copy.db"
	h.must(h.store.Records().Backup(h.t.Context(), copied))
	database, err := os.ReadFile(copied)
	h.must(err)
	for where, text := range map[string]string{"an answer": string(shown), "the database": string(database), "the log": h.log.String()} {
		if strings.Contains(text, "k-secret") {
			h.t.Errorf("the key is in %s", where)
		}
	}
}

// TestRefuses: what could not work is said at once, and nothing of it is stored.
func TestRefuses(t *testing.T) {
	h := added(t)
	good := providers.Request{Kind: cloud.RunPod, Key: "k-secret-2"}
	for name, c := range map[string]struct {
		change func(*providers.Request)
		code   string
		text   string
	}{
		"kind":           {func(q *providers.Request) { q.Kind = "aws" }, wire.CodeBadRequest, "vast_ai, runpod, lambda"},
		"name":           {func(q *providers.Request) { q.Name = "a/b" }, wire.CodeBadName, ""},
		"a path's name":  {func(q *providers.Request) { q.Name = "plan" }, wire.CodeBadName, "not plan"},
		"tenant":         {func(q *providers.Request) { q.Tenant = "a b" }, wire.CodeBadRequest, "tenant"},
		"no key":         {func(q *providers.Request) { q.Key = " \n" }, wire.CodeBadRequest, "--key-file"},
		"two lines":      {func(q *providers.Request) { q.Key = "a\nb" }, wire.CodeBadRequest, "--key-file"},
		"a long key":     {func(q *providers.Request) { q.Key = strings.Repeat("k", 5000) }, wire.CodeBadRequest, "--key-file"},
		"ssh key":        {func(q *providers.Request) { q.SSHKey = "a\x1b[1m" }, wire.CodeBadRequest, "ssh key"},
		"plain http":     {func(q *providers.Request) { q.URL = "http://example.com" }, wire.CodeBadRequest, "https"},
		"no URL":         {func(q *providers.Request) { q.URL = "ftp://x" }, wire.CodeBadRequest, "https"},
		"cannot be used": {func(q *providers.Request) { q.Key = "k-secret-undialable" }, wire.CodeBadRequest, "***"},
		"another's name": {func(q *providers.Request) { q.Name = cloud.Vast }, wire.CodeAlreadyThere, "--name"},
		"another's key": {func(q *providers.Request) { q.Kind, q.Name, q.Key = cloud.Vast, "two", "k-secret-1" },
			wire.CodeAlreadyThere, "twice"},
		"other tenant":    {func(q *providers.Request) { q.Kind, q.Tenant = cloud.Vast, "lab" }, wire.CodeAlreadyThere, "another one"},
		"another address": {func(q *providers.Request) { q.Kind, q.URL = cloud.Vast, "https://x" }, wire.CodeAlreadyThere, "another one"},
	} {
		q := good
		c.change(&q)
		_, err := h.Add(t.Context(), q, operator)
		if code, text := refused(err); code != c.code || !strings.Contains(text, c.text) || strings.Contains(text, "k-secret") {
			t.Errorf("%s: %s %s", name, code, text)
		}
	}
	for kind, code := range map[string]string{cloud.KeyRefused: wire.CodeBadRequest, cloud.Unclear: wire.CodeUnavailable,
		cloud.Limited: wire.CodeUnavailable} {
		h.cloud.fails(kind)
		_, err := h.Add(t.Context(), good, operator)
		if got, text := refused(err); got != code || !strings.Contains(text, "nothing was stored") {
			t.Errorf("%s: %s %s", kind, got, text)
		}
	}
	if all := h.Accounts(); len(all) != 1 || len(h.events("provider.added")) != 1 {
		t.Errorf("stored all the same: %+v", all)
	}
	if _, err := h.store.Secret(t.Context(), rentals.SecretName(cloud.RunPod)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a refused key is stored: %v", err)
	}
	for range 49 {
		h.cloud.shows()
		good.Name, good.Key = fmt.Sprint("a", len(h.Accounts())), fmt.Sprint("k-", len(h.Accounts()))
		_, err := h.Add(t.Context(), good, operator)
		h.must(err)
	}
	good.Name, good.Key = "one-more", "k-one-more"
	if _, err := h.Add(t.Context(), good, operator); err == nil {
		t.Error("any number of accounts")
	}
}

// TestReplaceKey: another key of the same account takes the place of the first. One that sees other machines does not: all would look gone.
func TestReplaceKey(t *testing.T) {
	h := added(t)
	h.cloud.shows(machine("1"), machine("2"))
	h.sees()
	h.cloud.shows(machine("2"), machine("3"))
	_, err := h.Add(t.Context(), providers.Request{Kind: cloud.Vast, Key: "k-secret-2"}, operator)
	h.must(err)
	h.open()
	if d := h.dials[len(h.dials)-1]; d.Key != "k-secret-2" {
		t.Errorf("dialled with %+v", d)
	}
	if e := h.events("provider.added"); len(e) != 2 || e[0].Detail["key"] != "replaced" {
		t.Errorf("got events %+v", e)
	}
	h.cloud.shows(machine("8"))
	_, err = h.Add(t.Context(), providers.Request{Kind: cloud.Vast, Key: "k-secret-3"}, operator)
	if code, text := refused(err); code != wire.CodeBadRequest || !strings.Contains(text, "none of the 2") {
		t.Errorf("%s %s", code, text)
	}
	hidden(h)
}

// TestLimit: a limit is exact, and one that is none is refused.
func TestLimit(t *testing.T) {
	h := added(t)
	for _, dollars := range []float64{2.3, 0, 1.1, 0.01, 1e6} {
		h.must(h.SetLimit(t.Context(), cloud.Vast, providers.SpendingLimit{PerHour: &dollars}, operator))
		h.open()
		if p, err := h.Show(cloud.Vast, ""); err != nil || *p.Limit != dollars {
			t.Errorf("got %+v, %v, want %g", p.Limit, err, dollars)
		}
	}
	for _, dollars := range []float64{-1, 1e6 + 1, 0.009, 1e-10} {
		if code, _ := refused(h.SetLimit(t.Context(), cloud.Vast, providers.SpendingLimit{PerHour: &dollars},
			operator)); code != wire.CodeBadRequest {
			t.Errorf("%g was taken", dollars)
		}
	}
	h.must(h.SetLimit(t.Context(), cloud.Vast, providers.SpendingLimit{}, operator))
	if p, _ := h.Show(cloud.Vast, ""); p.Limit != nil {
		t.Errorf("got %v, want none", *p.Limit)
	}
	if e := h.events("spending.limited"); len(e) != 6 || e[0].Detail["limit"] != "none" || e[5].Detail["limit"] != "2.3 an hour" {
		t.Errorf("got events %+v", e)
	}
}

// TestNoKey: an account whose key is not there says so, and keeps its last view.
func TestNoKey(t *testing.T) {
	h := added(t)
	h.cloud.shows(machine("1"))
	h.sees()
	h.must(h.store.DropSecret(t.Context(), rentals.SecretName(cloud.Vast)))
	h.open()
	if got := h.sees(); got != "1 running !" {
		t.Error(got)
	}
	if p, _ := h.Show(cloud.Vast, ""); !strings.Contains(p.Error, "add the account again") {
		t.Errorf("got %+v", p)
	}
	_, err := h.Add(t.Context(), providers.Request{Kind: cloud.Vast, Key: "k-secret-9"}, operator)
	h.must(err)
	if got := h.sees(); got != "1 running" {
		t.Error(got)
	}
}
