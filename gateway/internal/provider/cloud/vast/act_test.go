package vast_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
	vastsim "muster/gateway/internal/kit/cloudsim/vast"
	"muster/gateway/internal/provider/cloud"
)

// state is what the simulator knows of an instance.
func (p *place) state(t *testing.T, id string) string {
	t.Helper()
	for _, m := range p.Machines() {
		if m.ID == id {
			return m.State
		}
	}
	t.Fatalf("there never was an instance %s", id)
	return ""
}

// TestActs: start, stop and destroy, and that a lost reply is Unclear. Calls keep vast.ai's pace.
func TestActs(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{Limits: true}, 1)
	id := p.rent(t, 1)[0]
	says := func(status int, text string) cloudsim.Fault {
		return cloudsim.Fault{Kind: cloudsim.Status, Status: status, Text: text}
	}
	for _, test := range []struct {
		do    string
		fault cloudsim.Fault
		want  string
		state string
	}{
		{"stop", cloudsim.Fault{}, "", cloudsim.Stopped},
		{"start", cloudsim.Fault{}, "", cloudsim.Running},
		{"stop", cloudsim.Fault{Kind: cloudsim.Nothing}, "", cloudsim.Running},
		{"stop", cloudsim.Fault{Kind: cloudsim.Lost}, cloud.Unclear, cloudsim.Stopped},
		{"start", says(400, `{"success":false,"error":"missing_billing"}`), cloud.Refused, cloudsim.Stopped},
		{"start", says(503, ""), cloud.Unclear, cloudsim.Stopped},
		{"start", says(200, ""), cloud.Unclear, cloudsim.Stopped},
		{"start", says(200, `{"success":false,"msg":"no"}`), cloud.Refused, cloudsim.Stopped},
		{"start", says(200, `{"success":true}{}`), cloud.Unclear, cloudsim.Stopped},
		{"destroy", cloudsim.Fault{Kind: cloudsim.Nothing}, "", cloudsim.Stopped},
		{"destroy", says(404, `{"error":"auth_error"}`), cloud.KeyRefused, cloudsim.Stopped},
		{"destroy", cloudsim.Fault{Kind: cloudsim.HTML, Status: 404}, cloud.Unclear, cloudsim.Stopped},
		{"destroy", cloudsim.Fault{Kind: cloudsim.Lost}, cloud.Unclear, cloudsim.Gone},
		{"destroy", cloudsim.Fault{}, "", cloudsim.Gone},
		{"stop", cloudsim.Fault{}, cloud.NoSuch, cloudsim.Gone},
		{"start", cloudsim.Fault{}, cloud.NoSuch, cloudsim.Gone},
	} {
		act := map[string]func() error{
			"stop":    func() error { return p.Cloud.Stop(t.Context(), id) },
			"start":   func() error { return p.Cloud.Start(t.Context(), id) },
			"destroy": func() error { return p.Cloud.Destroy(t.Context(), id) },
		}[test.do]
		p.Add(test.fault)
		if got := kind(t, act()); got != test.want || p.state(t, id) != test.state {
			t.Errorf("%s with %+v is %q, and leaves it %s; want %q, %s", test.do, test.fault, got, p.state(t, id), test.want, test.state)
		}
		p.Heal()
	}
}

// TestOffers: what does not have what is wanted is left out, and the cheapest is first.
func TestOffers(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{}, 0)
	p.Sim = vastsim.New(cloudsim.Config{Now: p.clock.now, Keys: map[string][]string{key: nil}},
		vastsim.Host{ID: 1, GPU: "H100 SXM", GPUs: 8, MiB: 81559, Price: 16_000_000, MinBid: 4_000_000, Disk: 100, Place: "Oregon, US"},
		vastsim.Host{ID: 2, GPU: "H100 PCIE", GPUs: 1, MiB: 81559, Price: 2_000_000, Disk: 100, Place: "Prague, CZ"},
		vastsim.Host{ID: 3, GPU: "A100 SXM4", GPUs: 8, MiB: 40960, Price: 6_000_000, Disk: 100, Place: "Perth, AU"},
		vastsim.Host{ID: 4, GPU: "A100 SXM4", GPUs: 8, MiB: 81920, Price: 8_000_000, Disk: 100, Place: "Oregon, US"},
		vastsim.Host{ID: 5, GPU: "GH200 SXM", GPUs: 1, MiB: 97871, Price: 1_500_000, Disk: 100, Place: "Utah, US"},
	)
	for _, test := range []struct {
		want cloud.Want
		ids  []string
	}{
		{cloud.Want{GPU: "h100"}, []string{"500002", "500001"}},
		{cloud.Want{GPU: "H100_SXM"}, []string{"500001"}},
		{cloud.Want{GPU: "h100", GPUs: 8}, []string{"500001"}},
		{cloud.Want{GPU: "h100", MaxPrice: 2_001_600}, []string{"500002"}},
		{cloud.Want{GPU: "h100", MaxPrice: 2_001_599}, nil},
		{cloud.Want{GPU: "h100", Bid: true}, []string{"500002", "500001-bid", "500001"}},
		{cloud.Want{GPU: "a100", GPUMiB: 80_000}, []string{"500004"}},
		{cloud.Want{Region: "us"}, []string{"500005", "500004", "500001"}},
		{cloud.Want{Region: "oregon"}, []string{"500004", "500001"}},
		{cloud.Want{GPU: "V100"}, nil},
	} {
		offers, err := p.Offers(t.Context(), test.want)
		var ids []string
		for _, o := range offers {
			ids = append(ids, o.ID)
		}
		if err != nil || !slices.Equal(ids, test.ids) {
			t.Errorf("%+v: %v, %v; want %v", test.want, ids, err, test.ids)
		}
	}
	offers, err := p.Offers(t.Context(), cloud.Want{GPU: "H100SXM", Bid: true, DiskGB: 100})
	if err != nil || len(offers) != 2 {
		t.Fatalf("%d offers, %v", len(offers), err)
	}
	bid, o := offers[0], offers[1]
	if o.Price != 16_010_000 || o.Host != "1" || o.GPUs != 8 || *o.GPUMiB != 81559 || *o.Reliability != 0.9987 ||
		o.Until.Sub(p.clock.now()).Round(time.Hour) != 240*time.Hour || o.Bid != 0 || o.Region != "Oregon, US" {
		t.Errorf("the offer is %+v", o)
	}
	if bid.Bid != 4_200_000 || bid.Price != 4_210_000 {
		t.Errorf("the bid is %+v", bid)
	}
}

// TestOffersFail: an error is not an empty market.
func TestOffersFail(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{}, 1)
	for _, f := range []cloudsim.Fault{
		{Kind: cloudsim.Status}, {Kind: cloudsim.Status, Status: 200}, {Kind: cloudsim.HTML, Status: 200}, {Kind: cloudsim.Truncated},
		{Kind: cloudsim.Lost}, {Kind: cloudsim.Status, Status: 404, Text: `{"error":"x","msg":"Invalid user key"}`},
	} {
		for _, endpoint := range []string{vastsim.Models, vastsim.Search} {
			f.On = endpoint
			p.Add(f)
			if _, err := p.Offers(t.Context(), cloud.Want{GPU: "h100"}); kind(t, err) == "" {
				t.Errorf("%+v is not an error", f)
			}
			p.Heal()
		}
	}
}

// order rents host 1.
func order(name string) cloud.Order {
	return cloud.Order{Offer: cloud.Offer{ID: "500001"}, Name: name, Script: "#!/bin/sh\ntrue\n"}
}

// TestCreate: the instance has its name, its script and its place in the fleet, and every failure says whether it may be there.
func TestCreate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		order func(*cloud.Order)
		fault cloudsim.Fault
		want  string
		made  int  // instances that are there then
		named bool // the error names it
	}{
		{"well", nil, cloudsim.Fault{}, "", 1, false},
		{"image and disk", func(o *cloud.Order) { o.Image, o.DiskGB = "img:1", 4 }, cloudsim.Fault{}, "", 1, false},
		{"bid", func(o *cloud.Order) { o.Offer.ID, o.Offer.Bid = "500001-bid", 8_400_000 }, cloudsim.Fault{}, "", 1, false},
		{"low bid", func(o *cloud.Order) { o.Offer.ID, o.Offer.Bid = "500001-bid", 1 }, cloudsim.Fault{}, cloud.Refused, 1, true},
		{"lost", nil, cloudsim.Fault{Kind: cloudsim.Lost}, cloud.Unclear, 1, false},
		{"cut", nil, cloudsim.Fault{Kind: cloudsim.Truncated}, cloud.Unclear, 1, false},
		{"fails and is there", nil, cloudsim.Fault{Kind: cloudsim.Half}, cloud.Refused, 1, true},
		{"broken and is there", nil, cloudsim.Fault{Kind: cloudsim.Half, Status: 500}, cloud.Unclear, 1, false},
		{"HTML", nil, cloudsim.Fault{Kind: cloudsim.HTML, Status: 502}, cloud.Unclear, 0, false},
		{"limited", nil, cloudsim.Fault{Kind: cloudsim.Status, Status: 429, Type: "text/plain", Text: "slow"}, cloud.Limited, 0, false},
		{"not told which", nil, cloudsim.Fault{Kind: cloudsim.Status, Status: 200, Text: `{"success":true}`}, cloud.Unclear, 0, false},
		{"not my own", nil, cloudsim.Fault{Kind: cloudsim.Status, Status: 403, Text: `{"error":"invalid_args"}`}, cloud.Refused, 0, false},
		{"no such offer", func(o *cloud.Order) { o.Offer.ID = "5" }, cloudsim.Fault{}, cloud.NoOffer, 0, false},
		{"a path", func(o *cloud.Order) { o.Offer.ID = "../5" }, cloudsim.Fault{}, cloud.Refused, 0, false},
		{"no bid", func(o *cloud.Order) { o.Offer.ID = "500001-bid" }, cloudsim.Fault{}, cloud.Refused, 0, false},
		{"no name", func(o *cloud.Order) { o.Name = "" }, cloudsim.Fault{}, cloud.Refused, 0, false},
		{"long name", func(o *cloud.Order) { o.Name = strings.Repeat("x", 257) }, cloudsim.Fault{}, cloud.Refused, 0, false},
		{"long script", func(o *cloud.Order) { o.Script = strings.Repeat("x", 4097) }, cloudsim.Fault{}, cloud.Refused, 0, false},
		{"longest script", func(o *cloud.Order) { o.Script = strings.Repeat("x", 4096) }, cloudsim.Fault{}, "", 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var started []cloudsim.Machine
			p := open(t, cloudsim.Config{OnStart: func(m cloudsim.Machine) { started = append(started, m) }}, 1)
			p.Add(test.fault)
			o := order("muster-27")
			if test.order != nil {
				test.order(&o)
			}
			id, err := p.Create(t.Context(), o)
			p.Heal()
			all, _, listErr := p.list(t)
			if got := kind(t, err); got != test.want || len(all) != test.made || listErr != nil || (err == nil) != (id != "") {
				t.Fatalf("%q, %v, and there are %d, %v; want %s and %d", id, err, len(all), listErr, test.want, test.made)
			}
			for made, i := range maps.All(all) {
				if i.Name != "muster-27" || err == nil && made != id {
					t.Errorf("%s is there as %q", made, i.Name)
				}
				if test.named != (instanceOf(err) == made) {
					t.Errorf("the error names %q", instanceOf(err))
				}
			}
			if err == nil && (len(started) != 1 || started[0].Script != o.Script || started[0].Env["CONTAINER_ID"] != id ||
				started[0].Env["VAST_CONTAINERLABEL"] != "C."+id) {
				t.Errorf("started is %+v", started)
			}
		})
	}
}

func instanceOf(err error) string {
	if e, ok := err.(*cloud.Error); ok {
		return e.Instance
	}
	return ""
}

// TestCreateTaken: a machine is rented once at a time.
func TestCreateTaken(t *testing.T) {
	t.Parallel()
	p := open(t, cloudsim.Config{}, 1)
	id, err := p.Create(t.Context(), order("muster-1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), order("muster-2")); kind(t, err) != cloud.NoOffer {
		t.Errorf("a machine that is taken is %v", err)
	}
	if err := p.Cloud.Destroy(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), order("muster-2")); err != nil {
		t.Errorf("a machine that is free is %v", err)
	}
}

// TestRejoin: the machine starts again with the other script.
func TestRejoin(t *testing.T) {
	t.Parallel()
	var scripts []string
	p := open(t, cloudsim.Config{OnStart: func(m cloudsim.Machine) { scripts = append(scripts, m.Script) }}, 1)
	id := p.rent(t, 1)[0]
	for script, want := range map[string]string{"again": "", strings.Repeat("x", 4097): cloud.Refused} {
		if err := p.Rejoin(t.Context(), id, script); kind(t, err) != want {
			t.Errorf("%d bytes are %v, want %s", len(script), err, want)
		}
	}
	if !slices.Equal(scripts, []string{"", "again"}) {
		t.Errorf("it started with %q", scripts)
	}
	p.Remove(id)
	if err := p.Rejoin(t.Context(), id, "again"); kind(t, err) != cloud.NoSuch {
		t.Errorf("one that is gone is %v", err)
	}
}

// TestPace: calls one after the other never come too soon for vast.ai. One that did would be refused, or come again.
func TestPace(t *testing.T) {
	t.Parallel()
	for endpoint, call := range map[string]func(p *place, id string, turn int) error{
		vastsim.List:    func(p *place, _ string, _ int) error { _, _, err := p.list(t); return err },
		vastsim.Show:    func(p *place, id string, _ int) error { _, err := p.Get(t.Context(), id); return err },
		vastsim.Manage:  func(p *place, id string, _ int) error { return p.Cloud.Stop(t.Context(), id) },
		vastsim.Update:  func(p *place, id string, _ int) error { return p.Rejoin(t.Context(), id, "again") },
		vastsim.Destroy: func(p *place, id string, _ int) error { return p.Cloud.Destroy(t.Context(), id) },
		vastsim.Search: func(p *place, _ string, _ int) error {
			_, err := p.Offers(t.Context(), cloud.Want{GPU: "h100"})
			return err
		},
		vastsim.Create: func(p *place, _ string, turn int) error {
			o := order("muster-27")
			o.Offer.ID = []string{"500002", "500003", "500004"}[turn]
			_, err := p.Create(t.Context(), o)
			return err
		},
	} {
		p := open(t, cloudsim.Config{Limits: true}, 4)
		id := p.rent(t, 1)[0]
		for turn := range 3 {
			if err := call(p, id, turn); err != nil {
				t.Errorf("%s: %v", endpoint, err)
			}
		}
		if got := p.Calls(endpoint); got != 3 {
			t.Errorf("%s was called %d times, want 3", endpoint, got)
		}
	}
}
