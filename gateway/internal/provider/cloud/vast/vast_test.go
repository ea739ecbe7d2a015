package vast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
	vastsim "muster/gateway/internal/kit/cloudsim/vast"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/vast"
	"muster/gateway/internal/provider/market"
)

const key = "key-of-the-account"

var _ market.Cloud = (*vast.Cloud)(nil)

// clock moves when somebody waits for it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return ctx.Err()
}

// place is an account with a simulated vast.ai.
type place struct {
	*vastsim.Sim
	*vast.Cloud
	clock *clock
	mu    sync.Mutex
	said  bytes.Buffer // answers to lists
}

// keeper keeps what is answered.
type keeper struct {
	http.ResponseWriter
	p *place
}

func (k keeper) Write(b []byte) (int, error) {
	k.p.mu.Lock()
	k.p.said.Write(b)
	k.p.mu.Unlock()
	return k.ResponseWriter.Write(b)
}

func (p *place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/v1/instances/" {
		w = keeper{w, p}
	}
	p.Sim.ServeHTTP(w, r)
}

// open starts a simulator with hosts 1 to n, the dearer the higher.
func open(t *testing.T, c cloudsim.Config, hosts int) *place {
	t.Helper()
	p := &place{clock: &clock{at: time.Unix(1_790_000_000, 0)}}
	c.Now = p.clock.now
	if c.Keys == nil {
		c.Keys = map[string][]string{key: nil}
	}
	var all []vastsim.Host
	for i := range int64(hosts) {
		all = append(all, vastsim.Host{
			ID: i + 1, GPU: "H100 SXM", GPUs: 8, MiB: 81559, Price: 16_000_000 + i*100_000, MinBid: 8_000_000, Disk: 150, Place: "Oregon, US",
		})
	}
	p.Sim = vastsim.New(c, all...)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	var err error
	p.Cloud, err = vast.New(call.Account{URL: server.URL, Key: key, Now: p.clock.now, Sleep: p.clock.sleep})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rent has somebody rent the hosts 1 to n.
func (p *place) rent(t *testing.T, n int) (ids []string) {
	t.Helper()
	for i := range n {
		id, err := p.Rent(int64(i+1), "train-"+strconv.Itoa(i+1))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// list is what List gives, and how often it gives it.
func (p *place) list(t *testing.T) (map[string]cloud.Instance, int, error) {
	t.Helper()
	all, pages := map[string]cloud.Instance{}, 0
	err := p.List(t.Context(), func(some []cloud.Instance) {
		pages++
		for _, i := range some {
			all[i.ID] = i
		}
	})
	return all, pages, err
}

// kind is that of an error; empty: there is none.
func kind(t *testing.T, err error) string {
	t.Helper()
	var e *cloud.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &e):
		t.Fatalf("the error is %v, want a *cloud.Error", err)
	case strings.Contains(e.Error(), vastsim.Secret) || strings.Contains(e.Error(), key):
		t.Errorf("%v has a secret", e)
	}
	return e.Kind
}

// TestList: all pages come, whole, and no secret crosses the wire or is kept.
func TestList(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{Limits: true}, 60)
	if all, pages, err := p.list(t); len(all) != 0 || pages != 1 || err != nil {
		t.Fatalf("an empty account has %d instances on %d pages, %v", len(all), pages, err)
	}
	rented, ids := p.clock.now(), p.rent(t, 60)
	all, pages, err := p.list(t)
	if len(all) != 60 || pages != 3 || err != nil {
		t.Fatalf("%d instances on %d pages, %v; want 60 on 3", len(all), pages, err)
	}
	i := all[ids[2]]
	if i.Name != "train-3" || i.State != cloud.Running || i.Raw != "running" || i.Host != "3" || i.Region != "Oregon, US" ||
		i.GPU != "H100 SXM" || i.GPUs != 8 || *i.GPUMiB != 81559 || *i.Price != 16_202_400 || *i.Running != 16_202_400 || *i.Storage != 2400 ||
		i.Outbid || !i.StartedAt.Equal(rented.Truncate(time.Second)) || i.EndsAt != nil ||
		i.SSH == nil || i.SSH.Host != "ssh5.vast.invalid" || i.SSH.User != "root" {
		t.Errorf("the third is %+v", i)
	}
	if strings.Contains(fmt.Sprintf("%+v", all), vastsim.Secret) {
		t.Error("a secret was kept")
	}
	if strings.Contains(p.said.String(), vastsim.Secret) {
		t.Error("a secret crossed the wire")
	}
	if i, err := p.Get(t.Context(), ids[0]); err != nil || i.Name != "train-1" || strings.Contains(fmt.Sprintf("%+v", i), vastsim.Secret) {
		t.Errorf("the first is %+v, %v", i, err)
	}
}

// TestListWhileItChanges: what is destroyed and made between two pages spoils nothing that was there all the time.
func TestListWhileItChanges(t *testing.T) {
	t.Parallel()
	var p *place
	var ids []string
	calls := 0
	p = open(t, cloudsim.Config{OnCall: func(string) {
		if calls++; calls == 2 {
			p.Remove(ids[0])  // was seen
			p.Remove(ids[59]) // was not
			if _, err := p.Rent(1, "new"); err != nil {
				t.Error(err)
			}
		}
	}}, 60)
	ids = p.rent(t, 60)
	all, _, err := p.list(t)
	if err != nil || len(all) != 60 {
		t.Fatalf("%d instances, %v", len(all), err)
	}
	if _, seen := all[ids[59]]; seen {
		t.Error("what was gone before its page came is there")
	}
}

// TestFaultsAreNeverFewer: over random faults, a list that comes without an error has every instance.
func TestFaultsAreNeverFewer(t *testing.T) {
	t.Parallel()
	faults := []cloudsim.Fault{
		{Kind: cloudsim.Status}, {Kind: cloudsim.Status, Status: 401}, {Kind: cloudsim.Status, Status: 429},
		{Kind: cloudsim.Status, Status: 429, Header: map[string]string{"Retry-After": "3"}},
		{Kind: cloudsim.Status, Status: 404, Text: `{"error":"auth_error"}`},
		{Kind: cloudsim.Status, Status: 410, Text: `{"error":"deprecated_endpoint"}`},
		{Kind: cloudsim.Status, Status: 503}, {Kind: cloudsim.Status, Status: 302, Header: map[string]string{"Location": "/"}},
		{Kind: cloudsim.Status, Status: 200}, {Kind: cloudsim.Status, Status: 200, Text: `[]`},
		{Kind: cloudsim.Status, Status: 200, Text: `null`},
		{Kind: cloudsim.Status, Status: 200, Text: `{"success":false,"error":"auth_error","instances":[]}`},
		{Kind: cloudsim.Status, Status: 200, Text: `{"success":true,"instances":[]}`},
		{Kind: cloudsim.Status, Status: 200, Text: `{"success":true,"total_instances":60,"instances":[]}`},
		{Kind: cloudsim.Status, Status: 200, Text: `{"success":true,"total_instances":60,"instances":null}`},
		{Kind: cloudsim.Status, Status: 204}, {Kind: cloudsim.HTML, Status: 200}, {Kind: cloudsim.HTML, Status: 502},
		{Kind: cloudsim.Truncated}, {Kind: cloudsim.Lost}, {Kind: cloudsim.Short}, {Kind: cloudsim.Twice},
	}
	p := open(t, cloudsim.Config{}, 60)
	p.rent(t, 60)
	failed, well := 0, 0
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 27))
		for range 1 + random.IntN(2) {
			f := faults[random.IntN(len(faults))]
			f.On, f.Skip, f.Times = vastsim.List, random.IntN(4), 1+random.IntN(3)
			p.Add(f)
		}
		all, _, err := p.list(t)
		p.Heal()
		if err == nil && len(all) != 60 {
			t.Fatalf("seed %d: a list without an error has %d of 60 instances", seed, len(all))
		}
		if err == nil {
			well++
		} else if kind(t, err) == cloud.NoSuch {
			t.Errorf("seed %d: a list is %v", seed, err)
		} else {
			failed++
		}
	}
	if failed < 10 || well < 5 {
		t.Errorf("%d lists failed and %d came: the faults show nothing", failed, well)
	}
}

// TestListFails: what a fault of the second page means. It is never the end of the list.
func TestListFails(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{}, 60)
	p.rent(t, 60)
	for _, test := range []struct {
		fault cloudsim.Fault
		want  string
	}{
		{cloudsim.Fault{Kind: cloudsim.Short}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Twice}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Truncated}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Enormous}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.HTML, Status: 200}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 401}, cloud.KeyRefused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 404, Text: `{"success":false,"error":"auth_error"}`}, cloud.KeyRefused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"success":false,"error":"auth_error"}`}, cloud.KeyRefused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 400, Text: `{"error":"invalid_token"}`}, cloud.Refused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 410, Text: `{"error":"deprecated_endpoint"}`}, cloud.Refused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 429}, cloud.Limited},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 429, Times: 3}, ""},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 503, Times: 2}, ""},
	} {
		test.fault.On, test.fault.Skip = vastsim.List, 1
		p.Add(test.fault)
		if _, _, err := p.list(t); kind(t, err) != test.want {
			t.Errorf("%+v is %v, want %s", test.fault, err, test.want)
		}
		p.Heal()
	}
	p.Add(cloudsim.Fault{On: vastsim.List, Kind: cloudsim.Status, Status: 200, Text: `{"total_instances":1,"instances":[{"id":7},{"id":8}]}`})
	if _, _, err := p.list(t); kind(t, err) != cloud.Unclear {
		t.Errorf("more instances than there are is %v", err)
	}
}

// TestErrors: what each answer to a Get means. Only words that are sure say that the instance is gone.
func TestErrors(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{}, 1)
	id := p.rent(t, 1)[0]
	for _, test := range []struct {
		fault cloudsim.Fault
		want  string
	}{
		{cloudsim.Fault{}, ""},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 404, Text: `{"error":"no_such_instance"}`}, cloud.NoSuch},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 404, Text: `{"error":"not_found","msg":"Instance not found"}`}, cloud.NoSuch},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"instances":null}`}, cloud.NoSuch},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"success":false,"error":"no_such_instance"}`}, cloud.NoSuch},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 404, Text: `{"error":"auth_error","msg":"no_such_instance"}`}, cloud.KeyRefused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 404}, cloud.Refused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 410, Text: `{"error":"deprecated_endpoint"}`}, cloud.Refused},
		{cloudsim.Fault{Kind: cloudsim.HTML, Status: 404}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 401}, cloud.KeyRefused},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 429, Type: "text/plain", Text: "API requests too frequent"}, cloud.Limited},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 500}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"instances":[]}`}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"instances":{"id":1}}`}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"instances":{}}`}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"success":false}`}, cloud.Refused},
		{cloudsim.Fault{Kind: cloudsim.Truncated}, cloud.Unclear},
		{cloudsim.Fault{Kind: cloudsim.Lost}, cloud.Unclear},
	} {
		test.fault.On = vastsim.Show
		p.Add(test.fault)
		_, err := p.Get(t.Context(), id)
		if got := kind(t, err); got != test.want {
			t.Errorf("%+v is %s (%v), want %s", test.fault, got, err, test.want)
		}
		p.Heal()
	}
	p.Remove(id)
	if _, err := p.Get(t.Context(), id); kind(t, err) != cloud.NoSuch {
		t.Errorf("a destroyed one is %v", err)
	}
	for _, bad := range []string{"", "../1", "x", "-1", "0", "1/2"} {
		if _, err := p.Get(t.Context(), bad); kind(t, err) != cloud.Refused {
			t.Errorf("id %q is %v", bad, err)
		}
	}
}

// TestStates: each word, and what prices and marks come with it.
func TestStates(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{}, 1)
	id := p.rent(t, 1)[0]
	for _, test := range []struct {
		actual, contract, intended, msg any
		bid                             bool
		want                            string
		outbid                          bool
	}{
		{nil, "running", "running", nil, false, cloud.Starting, false},
		{"loading", "running", "running", "Retrying: manifest unknown", false, cloud.Starting, false},
		{"loading", "running", "running", "manifest unknown", false, cloud.Broken, false},
		{"created", "running", "running", "Error: OCI runtime create failed", false, cloud.Broken, false},
		{"rebooting", "running", "running", "", false, cloud.Starting, false},
		{"running", "running", "running", "OCI runtime create failed", false, cloud.Running, false},
		{"running", "stopped", "stopped", "", false, cloud.Unknown, false},
		{"running", nil, "running", "", false, cloud.Running, false},
		{"frozen", "running", "frozen", "", false, cloud.Running, false},
		{"stopped", "stopped", "stopped", "", true, cloud.Stopped, false},
		{"stopped", "stopped", "running", "", true, cloud.Stopped, true},
		{"stopped", "stopped", "running", "", false, cloud.Stopped, false},
		{"exited", "running", "running", "", false, cloud.Broken, false},
		{"exited", "stopped", "stopped", "", false, cloud.Stopped, false},
		{nil, "stopped", "stopped", "", true, cloud.Stopped, false},
		{"offline", "running", "running", "", false, cloud.Broken, false},
		{"unknown", "running", "running", "", false, cloud.Unknown, false},
		{"hibernating", "running", "running", "", false, cloud.Unknown, false},
		{map[string]any{"a": 1}, "running", "running", "", false, cloud.Unknown, false},
		{true, "running", "running", "", false, cloud.Unknown, false},
	} {
		for field, value := range map[string]any{
			"actual_status": test.actual, "cur_state": test.contract, "intended_status": test.intended, "status_msg": test.msg, "is_bid": test.bid,
		} {
			p.Spoil(id, field, value)
		}
		i, err := p.Get(t.Context(), id)
		if err != nil || i.State != test.want || i.Outbid != test.outbid {
			t.Errorf("%v, %v, %v, %v is %s, outbid %v, %v; want %s, %v",
				test.actual, test.contract, test.intended, test.msg, i.State, i.Outbid, err, test.want, test.outbid)
		}
	}
}

// TestNumbers: what is no number, or none that can be, is not known. It never spoils the list.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, bad := range []any{nil, -1.5, "NaN", "Inf", "", []int{1}, map[string]any{"x": 1}, 1e300, true} {
		p := open(t, cloudsim.Config{}, 1)
		id := p.rent(t, 1)[0]
		for _, field := range []string{
			"dph_total", "instance", "search", "storage_total_cost", "gpu_ram", "num_gpus", "ssh_port", "start_date", "end_date", "machine_id",
		} {
			p.Spoil(id, field, bad)
		}
		all, _, err := p.list(t)
		i := all[id]
		if err != nil || i.Price != nil || i.Running != nil || i.Storage != nil || i.GPUMiB != nil || i.GPUs != 0 || i.SSH != nil ||
			i.StartedAt != nil || i.EndsAt != nil {
			t.Errorf("%v gives %+v, %v", bad, i, err)
		}
	}
	for _, test := range []struct {
		fields             map[string]any
		price, run, stored string
	}{
		{map[string]any{"instance": nil, "search": nil, "dph_total": 2.5, "storage_total_cost": 0.0000005}, "2500000", "2500000", "1"},
		{map[string]any{"instance": map[string]any{"totalHour": 0, "diskHour": 0.25}}, "16002400", "16002400", "250000"},
		{map[string]any{"instance": map[string]any{"totalHour": 2, "discountedTotalPerHour": 1.5}}, "1500000", "16002400", "2400"},
		{map[string]any{"search": map[string]any{"totalHour": -2}, "dph_total": 3}, "16002400", "3000000", "2400"},
		{map[string]any{"instance": nil, "actual_status": "stopped"}, "2400", "16002400", "2400"},
		{map[string]any{"instance": nil, "actual_status": "unknown"}, "nil", "16002400", "2400"},
	} {
		p := open(t, cloudsim.Config{}, 1)
		id := p.rent(t, 1)[0]
		for field, value := range test.fields {
			p.Spoil(id, field, value)
		}
		i, err := p.Get(t.Context(), id)
		if err != nil || money(i.Price) != test.price || money(i.Running) != test.run || money(i.Storage) != test.stored {
			t.Errorf("%v: %s, %s, %s, %v", test.fields, money(i.Price), money(i.Running), money(i.Storage), err)
		}
	}
}

func money(m *cloud.Money) string {
	if m == nil {
		return "nil"
	}
	return strconv.FormatInt(int64(*m), 10)
}

// TestKeys: a key that is not taken, and one that may not do all.
func TestKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys                  map[string][]string
		list, offers, destroy string
	}{
		"another":  {map[string][]string{"another-key": nil}, cloud.KeyRefused, cloud.KeyRefused, cloud.KeyRefused},
		"reads":    {map[string][]string{key: {vastsim.Read}}, "", cloud.KeyRefused, cloud.KeyRefused},
		"searches": {map[string][]string{key: {vastsim.Misc}}, cloud.KeyRefused, "", cloud.KeyRefused},
		"all":      {map[string][]string{key: {vastsim.Read, vastsim.Write, vastsim.Misc}}, "", "", ""},
	} {
		p := open(t, cloudsim.Config{Keys: test.keys}, 1)
		id := p.rent(t, 1)[0]
		_, _, list := p.list(t)
		_, offers := p.Offers(t.Context(), cloud.Want{GPU: "h100"})
		destroy := p.Destroy(t.Context(), id)
		if kind(t, list) != test.list || kind(t, offers) != test.offers || kind(t, destroy) != test.destroy {
			t.Errorf("%s: list is %v, offers %v, destroy %v", name, list, offers, destroy)
		}
	}
}
