package market_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/api/providers"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// TestView: only a complete list makes a view; anything else leaves the last one as it is, with its age.
func TestView(t *testing.T) {
	h := added(t)
	if got := h.sees(); got != "" {
		t.Errorf("no instances at all: %q", got)
	}
	h.cloud.shows(machine("1"), machine("2", func(i *cloud.Instance) { i.State = cloud.Stopped }))
	if got := h.sees(); got != "1 running, 2 stopped" {
		t.Fatal(got)
	}
	for name, list := range map[string]func(func([]cloud.Instance)) error{
		"an error": func(func([]cloud.Instance)) error { return &cloud.Error{Kind: cloud.Unclear, Status: 502} },
		"a missing page": func(take func([]cloud.Instance)) error {
			take([]cloud.Instance{machine("1")})
			return errors.New("cut off")
		},
		"no id":     func(take func([]cloud.Instance)) error { take([]cloud.Instance{machine("")}); return nil },
		"an odd id": func(take func([]cloud.Instance)) error { take([]cloud.Instance{machine("../1 --all")}); return nil },
		"far too many": func(take func([]cloud.Instance)) error {
			for n := range 50_001 {
				take([]cloud.Instance{machine(fmt.Sprint(n))})
			}
			return nil
		},
	} {
		h.cloud.list = list
		if got := h.sees(); got != "1 running, 2 stopped !" {
			t.Errorf("%s: %s", name, got)
		}
	}
	h.now = h.now.Add(10 * time.Minute)
	if got := h.sees(); got != "1 running, 2 stopped ! old" {
		t.Errorf("after some time: %s", got)
	}
	h.open()
	if all, _, known := h.Instances(cloud.Vast); len(all) != 2 || known || all[1].State != cloud.Stopped {
		t.Errorf("after a start: %+v, %v", all, known)
	}
	h.cloud.list = func(take func([]cloud.Instance)) error { // pages that shift while they are read
		take([]cloud.Instance{machine("2"), machine("3")})
		take([]cloud.Instance{machine("3", func(i *cloud.Instance) { i.State = cloud.Broken }), machine("1")})
		return nil
	}
	if got := h.sees(); got != "1 running, 2 running, 3 broken" {
		t.Error(got)
	}
}

// TestGone: an instance is gone when two complete lists lack it, and the company says of it alone that there is none.
func TestGone(t *testing.T) {
	h := added(t)
	h.cloud.shows(machine("1"), machine("2"))
	h.sees()
	h.cloud.shows(machine("1"))
	if got := h.sees(); got != "1 running, 2 running" {
		t.Errorf("after one list: %s", got)
	}
	for name, get := range map[string]func(string) (cloud.Instance, error){
		"it is there": func(id string) (cloud.Instance, error) { return machine(id), nil },
		"an error":    func(string) (cloud.Instance, error) { return cloud.Instance{}, &cloud.Error{Kind: cloud.Unclear} },
		"a refused key": func(string) (cloud.Instance, error) {
			return cloud.Instance{}, &cloud.Error{Kind: cloud.KeyRefused, Status: 404}
		},
		"another one": func(string) (cloud.Instance, error) {
			return machine("1", func(i *cloud.Instance) { i.State = cloud.Gone }), nil
		},
	} {
		h.cloud.get = get
		if got := h.sees(); got != "1 running, 2 running" {
			t.Errorf("%s: %s", name, got)
		}
	}
	h.cloud.get = noSuch
	h.cloud.fails(cloud.Unclear)
	if got := h.sees(); got != "1 running, 2 running !" {
		t.Errorf("without a list: %s", got)
	}
	h.cloud.shows(machine("1"))
	if got := h.sees(); got != "1 running" {
		t.Errorf("when all say so: %s", got)
	}
	h.cloud.shows(machine("1"), machine("2"))
	if got := h.sees(); got != "1 running, 2 running" {
		t.Errorf("when it comes back: %s", got)
	}
	dead := machine("2", func(i *cloud.Instance) { i.State = cloud.Gone }) // listed as destroyed
	h.cloud.shows(machine("1"), dead)
	h.cloud.get = func(string) (cloud.Instance, error) { return dead, nil }
	if first, second := h.sees(), h.sees(); first != "1 running, 2 running" || second != "1 running" {
		t.Errorf("listed as gone: %s, then %s", first, second)
	}
}

// TestClean: what cannot be is not known, and what a company says is bounded.
func TestClean(t *testing.T) {
	h := added(t)
	h.cloud.shows(machine("1", func(i *cloud.Instance) {
		*i = cloud.Instance{ID: "1", State: "levitating", Raw: "levitating\x1b[2J", Why: strings.Repeat("long ", 1000), GPUs: -3,
			Price: to(cloud.Money(-1)), Running: to(2_000_000 * cloud.Dollar), Storage: to(cloud.Money(0)), GPUMiB: to(int64(-1)),
			StartedAt: to(time.Unix(0, 0)), EndsAt: to(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)),
			SSH: &cloud.Address{Host: "-oProxyCommand=x", Port: 22, User: "root"}}
	}), machine("2", func(i *cloud.Instance) { i.SSH = &cloud.Address{Host: "ssh4.vast.ai", Port: 12345, User: "root"} }),
		machine("3", func(i *cloud.Instance) { i.SSH = &cloud.Address{Host: "h", Port: 70000} }),
		machine("4", func(i *cloud.Instance) { i.SSH = &cloud.Address{Host: "fe80::1", Port: 22, User: "$(id)"} }))
	h.sees()
	all, _, _ := h.Instances(cloud.Vast)
	one := all[0]
	if one.State != cloud.Unknown || one.Raw != "levitating[2J" || len(one.Why) > 300 || one.GPUs != 0 || one.Price != nil ||
		one.Running != nil ||
		*one.Storage != 0 || one.GPUMiB != nil || one.StartedAt != nil || one.EndsAt != nil || one.SSH != nil {
		t.Errorf("got %+v", one)
	}
	if all[1].SSH == nil || *all[1].SSH != (cloud.Address{Host: "ssh4.vast.ai", Port: 12345, User: "root"}) ||
		all[2].SSH != nil || all[3].SSH != nil {
		t.Errorf("got addresses %v %v %v", all[1].SSH, all[2].SSH, all[3].SSH)
	}
}

// TestFails: a failure is told once, without the key, and so is its end.
func TestFails(t *testing.T) {
	h := added(t)
	h.sees()
	synced := h.now
	h.cloud.fails(cloud.KeyRefused)
	for range 3 {
		h.now = h.now.Add(time.Minute)
		if err := h.Sync(t.Context(), cloud.Vast); err == nil || err.Error() != "HTTP 503: key *** is bad (key_refused)" {
			t.Errorf("it says %v", err)
		}
	}
	p, err := h.Show(cloud.Vast, "")
	h.must(err)
	if p.FailedAt == nil || !p.FailedAt.Equal(synced.Add(time.Minute)) || p.Error != "HTTP 503: key *** is bad (key_refused)" ||
		!p.SyncedAt.Equal(synced) || !p.Known {
		t.Errorf("got %+v", p)
	}
	rows, err := h.records.Accounts(t.Context())
	h.must(err)
	if len(rows) != 1 || rows[0].Error != p.Error || !rows[0].FailedAt.Equal(*p.FailedAt) {
		t.Errorf("on record: %+v", rows)
	}
	e := h.events("provider.failed")
	if len(e) != 1 || e[0].Detail["error"] != p.Error || e[0].Outcome == store.OutcomeOK {
		t.Errorf("got events %+v", e)
	}
	h.cloud.shows()
	h.sees()
	h.sees()
	if p, _ = h.Show(cloud.Vast, ""); p.FailedAt != nil || p.Error != "" {
		t.Errorf("after it works again: %+v", p)
	}
	if n := len(h.events("provider.works")); n != 1 {
		t.Errorf("told %d times that it works", n)
	}
	hidden(h)
}

// TestRun: each account is asked at its pace, more rarely while it fails and as the company wants; a new one soon, one that is removed not
// any more, and one that hangs keeps nobody back.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		var fails error
		s := kit.Store(t, nil)
		records := rentals.New(s.Records())
		m, err := market.Open(t.Context(), market.Config{Store: s, Records: records, Rand: func() float64 { return 0.5 },
			Dial: func(_ string, d market.Dial) (market.Cloud, error) {
				return &fake{get: noSuch, list: func(func([]cloud.Instance)) error {
					mu.Lock()
					defer mu.Unlock()
					asked[d.Key]++
					return fails
				}}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		count := func(key string, pause time.Duration) int {
			time.Sleep(pause)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			n := asked[key]
			asked[key] = 0
			return n
		}
		add := func(name, key string) {
			t.Helper()
			if _, err := m.Add(ctx, providers.Request{Kind: cloud.Vast, Name: name, Key: key}, operator); err != nil {
				t.Fatal(err)
			}
		}
		add("a", "key-a")
		if n := count("key-a", 10*time.Second); n != 2 { // as it is added, and soon after
			t.Errorf("a new account is asked %d times", n)
		}
		if n := count("key-a", 450*time.Second); n != 10 {
			t.Errorf("in ten rounds it is asked %d times", n)
		}
		m.Soon("nobody")
		m.Soon("a")
		if n := count("key-a", 10*time.Second); n != 1 {
			t.Errorf("where somebody waits for it, it is asked %d times", n)
		}
		mu.Lock()
		fails = &cloud.Error{Kind: cloud.Unclear}
		mu.Unlock()
		if n := count("key-a", time.Hour); n < 7 || n > 10 { // after 45 s, 90 s, 3, 6, 10, 10 ... minutes
			t.Errorf("while it fails it is asked %d times in an hour", n)
		}
		mu.Lock()
		fails = nil
		mu.Unlock()
		if n := count("key-a", 11*time.Minute); n < 1 {
			t.Error("it is not asked again")
		}
		mu.Lock()
		fails = &cloud.Error{Kind: cloud.Limited, Again: 5 * time.Minute}
		mu.Unlock()
		count("key-a", 50*time.Second)
		m.Soon("a")
		if n := count("key-a", 4*time.Minute); n != 0 {
			t.Errorf("it is asked %d times though it wants peace", n)
		}
		if err := m.Remove(ctx, "a", operator); err != nil {
			t.Fatal(err)
		}
		if n := count("key-a", time.Hour); n != 0 {
			t.Errorf("a removed account is asked %d times", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOutage: while the database takes nothing, the last view stays.
func TestOutage(t *testing.T) {
	h := added(t)
	h.cloud.shows(machine("1"))
	h.sees()
	h.cloud.shows(machine("1"), machine("2"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Sync(gone, cloud.Vast); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	h.must(h.store.Close())
	if got := h.sees(); got != "1 running !" {
		t.Error(got)
	}
}
