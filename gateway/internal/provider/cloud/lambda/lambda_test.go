package lambda_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim/cloudtest"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/lambda"
	"muster/gateway/internal/provider/market"
)

const (
	key    = "secret_lambda_key_1234"
	script = "#!/bin/sh\nMUSTER_TOKEN=msk_secret sh -c 'join' --\n"
)

var _ market.Cloud = (*lambda.Cloud)(nil)

// open is an account with a Lambda Cloud that gives these answers. It never waits: it adds up how long it would have.
func open(t *testing.T, give ...string) (*lambda.Cloud, *cloudtest.Answers) {
	t.Helper()
	a := cloudtest.Answering(t, key, give...)
	now := time.Date(2026, 11, 29, 4, 0, 0, 0, time.UTC)
	c, err := lambda.New(call.Account{
		URL: a.URL, Key: key, Now: func() time.Time { return now },
		Sleep: func(ctx context.Context, d time.Duration) error { now = now.Add(d); return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

// kindOf is the kind of an error; empty: there is none. Nothing secret is in it.
func kindOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var failed *cloud.Error
	if !errors.As(err, &failed) {
		t.Fatalf("the error is %v, want a *cloud.Error", err)
	}
	if text := err.Error(); strings.Contains(text, "secret") {
		t.Errorf("the error has a secret: %s", text)
	}
	return failed.Kind
}

// problem is an error as Lambda writes it, after its status.
func problem(status int, code, message string) string {
	return fmt.Sprintf(`%d {"error":{"code":%q,"message":%q}}`, status, code, message)
}

// one is an instance, in a form such as {"data":%s}, after 200.
func one(form, id, status string) string {
	return "200 " + fmt.Sprintf(form, fmt.Sprintf(`{"id":%q,"status":%q}`, id, status))
}

// TestGet: what each answer means. Only Lambda's own word says that an instance is not there.
func TestGet(t *testing.T) {
	t.Parallel()
	const data = `{"data":%s}`
	for answer, want := range map[string]string{
		one(data, "i1", "active"):                                 "",
		one(data, "i2", "active"):                                 cloud.Unclear, // another
		`200 {"data":null}`:                                       cloud.Unclear,
		`200 {"error":{"code":"global/object-does-not-exist"}}`:   cloud.Unclear,
		`200 <html></html>`:                                       cloud.Unclear,
		problem(404, "global/object-does-not-exist", "it is not"): cloud.NoSuch,
		problem(404, "global/not-found", "no such page"):          cloud.Refused,
		`404 {"message":"no route"}`:                              cloud.Refused,
		`404 <html></html>`:                                       cloud.Unclear,
		problem(401, "global/invalid-api-key", "expired: "+key):   cloud.KeyRefused,
		problem(403, "global/account-inactive", "pay"):            cloud.Refused,
		problem(403, "global/forbidden", "no"):                    cloud.Refused,
		problem(400, "global/invalid-parameters", "no"):           cloud.Refused,
		problem(429, "global/too-many", "slow down"):              cloud.Limited,
		`429 slow down`:                                           cloud.Limited,
		problem(500, "global/internal-error", "oops"):             cloud.Unclear,
		problem(400, "provider/internal-unavailable", "later"):    cloud.Unclear,
	} {
		c, _ := open(t, answer)
		i, err := c.Get(t.Context(), "i1")
		if got := kindOf(t, err); got != want || err == nil && i.ID != "i1" || err != nil && i.ID != "" {
			t.Errorf("%s: %+v, %v", answer, i, err)
		}
	}
	c, asked := open(t, one(data, "..", "active"))
	if _, err := c.Get(t.Context(), ".."); kindOf(t, err) != cloud.Refused || len(asked.Asked()) > 0 {
		t.Errorf("a path is asked for: %v, %v", err, asked.Asked())
	}
}

// TestList: nothing is taken before the list has ended.
func TestList(t *testing.T) {
	t.Parallel()
	var got []cloud.Instance
	take := func(some []cloud.Instance) { got = append(got, some...) }
	c, asked := open(t, `200 {"data":[{"id":"i1","status":"active"},{"id":"i2","status":"booting"}]}`)
	if err := c.List(t.Context(), take); err != nil || len(got) != 2 || !slices.Equal(asked.Asked(), []string{"GET /instances"}) {
		t.Errorf("the list is %+v, %v after %q", got, err, asked.Asked())
	}
	c, _ = open(t, `200 {"data":[{"id":"i1"},{"id":"i2"}`)
	got = nil
	if err := c.List(t.Context(), take); kindOf(t, err) != cloud.Unclear || got != nil {
		t.Errorf("half a list is %+v, %v", got, err)
	}
}

// TestLongList: a list has no pages, and may be longer than another answer.
func TestLongList(t *testing.T) {
	t.Parallel()
	host := strings.Repeat("h", 36<<10)
	rows := make([]string, 250)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":"i%d","status":"active","hostname":"`, i) + host + `"}`
	}
	c, _ := open(t, `200 {"data":[`+strings.Join(rows, ",")+"]}")
	n := 0
	if err := c.List(t.Context(), func(some []cloud.Instance) { n += len(some) }); err != nil || n != len(rows) {
		t.Errorf("%d instances, %v", n, err)
	}
}

// TestCannot: nothing is asked for what Lambda cannot do.
func TestCannot(t *testing.T) {
	t.Parallel()
	c, asked := open(t, "500 {}")
	for name, err := range map[string]error{
		"start": c.Start(t.Context(), "i1"), "stop": c.Stop(t.Context(), "i1"), "rejoin": c.Rejoin(t.Context(), "i1", script),
	} {
		if kindOf(t, err) != cloud.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(asked.Asked()) > 0 {
		t.Errorf("it asked %q", asked.Asked())
	}
}

// TestDestroy: a success that does not name the instance is none. What ends already is no error.
func TestDestroy(t *testing.T) {
	t.Parallel()
	const data, ended = `{"data":%s}`, `{"data":{"terminated_instances":[%s]}}`
	missing := problem(404, "global/object-does-not-exist", "it is not")
	for name, a := range map[string]struct {
		give  []string
		want  string
		asked int
	}{
		"done":              {[]string{one(ended, "i1", "terminating")}, "", 1},
		"another":           {[]string{one(ended, "i2", "terminating"), one(data, "i1", "active")}, cloud.Unclear, 2},
		"none":              {[]string{`200 {"data":{"terminated_instances":[]}}`, one(data, "i1", "active")}, cloud.Unclear, 2},
		"none, but it ends": {[]string{`200 {"data":{"terminated_instances":[]}}`, one(data, "i1", "terminating")}, "", 2},
		"cut":               {[]string{`200 {"data":{"terminated_inst`, one(data, "i1", "terminated")}, "", 2},
		"gone":              {[]string{missing}, "", 2},
		"gone?":             {[]string{missing, one(data, "i1", "active")}, cloud.NoSuch, 2},
		"it ends already":   {[]string{problem(409, "global/conflict", "x"), one(data, "i1", "terminating")}, "", 2},
		"it is busy":        {[]string{problem(400, "global/invalid-parameters", "x"), one(data, "i1", "booting")}, cloud.Refused, 2},
		"broken":            {[]string{problem(500, "global/internal-error", "x")}, cloud.Unclear, 2},
		"limited":           {[]string{problem(429, "x", "x")}, cloud.Limited, 1},
		"key":               {[]string{problem(401, "global/invalid-api-key", "x")}, cloud.KeyRefused, 1},
	} {
		c, asked := open(t, a.give...)
		if err := c.Destroy(t.Context(), "i1"); kindOf(t, err) != a.want || len(asked.Asked()) != a.asked {
			t.Errorf("%s: %v after %q", name, err, asked.Asked())
		}
		if want := `POST /instance-operations/terminate {"instance_ids":["i1"]}`; asked.Asked()[0] != want {
			t.Errorf("%s: it asked %s", name, asked.Asked()[0])
		}
	}
	c, asked := open(t, "200 {}")
	if err := c.Destroy(t.Context(), "a/b"); kindOf(t, err) != cloud.Refused || len(asked.Asked()) > 0 {
		t.Errorf("a path: %v after %q", err, asked.Asked())
	}
}

func order() cloud.Order {
	return cloud.Order{Offer: cloud.Offer{ID: "gpu_8x_h100_sxm5/us-west-1"}, Name: "muster-abc", Script: script, SSHKey: "k"}
}

// TestCreate: tags say for whom it is and since when, and launches keep their pace.
func TestCreate(t *testing.T) {
	t.Parallel()
	c, asked := open(t, `200 {"data":{"instance_ids":["i1"]}}`)
	for range 2 {
		if id, err := c.Create(t.Context(), order()); err != nil || id != "i1" {
			t.Fatalf("it made %q, %v", id, err)
		}
	}
	body := func(at string) string {
		return `POST /instance-operations/launch {"region_name":"us-west-1","instance_type_name":"gpu_8x_h100_sxm5","ssh_key_names":["k"],` +
			`"name":"muster-abc","tags":[{"key":"muster:rental","value":"abc"},{"key":"muster:launched","value":"` + at + `"}],` +
			`"user_data":"#!/bin/sh\nMUSTER_TOKEN=msk_secret sh -c 'join' --\n"}`
	}
	// The time of an order is that at which it is made. The second waits for its turn after that.
	if want := []string{body("2026-11-29T04:00:00Z"), body("2026-11-29T04:00:00Z")}; !slices.Equal(asked.Asked(), want) {
		t.Errorf("it asked %q, want %q", asked.Asked(), want)
	}
	if _, err := c.Create(t.Context(), order()); err != nil || !strings.Contains(asked.Asked()[2], "04:00:12Z") {
		t.Errorf("it asked %q, %v", asked.Asked()[2], err)
	}
}

// TestCreateFails: an answer that cannot be read may have made an instance.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		problem(400, "instance-operations/launch/insufficient-capacity", "no room"): cloud.NoOffer,
		problem(400, "global/quota-exceeded", "no"):                                 cloud.Refused,
		problem(400, "global/invalid-parameters", "user_data: "+script):             cloud.Refused,
		problem(404, "global/object-does-not-exist", "no such key"):                 cloud.Refused,
		problem(401, "global/invalid-api-key", "no"):                                cloud.KeyRefused,
		problem(403, "global/account-inactive", "no"):                               cloud.Refused,
		problem(429, "x", "slow down"):                                              cloud.Limited,
		problem(503, "provider/internal-unavailable", "later"):                      cloud.Unclear,
		problem(500, "global/internal-error", "oops"):                               cloud.Unclear,
		`400 <html></html>`:                        cloud.Unclear,
		`200 {"data":{"instance_ids":[]}}`:         cloud.Unclear,
		`200 {"data":{"instance_ids":["i1"]}`:      cloud.Unclear,
		`200 {}`:                                   cloud.Unclear,
		`200 {"data":{"instance_ids":["i1","i2"]}`: cloud.Unclear,
	} {
		c, asked := open(t, answer)
		if id, err := c.Create(t.Context(), order()); kindOf(t, err) != want || id != "" || len(asked.Asked()) != 1 {
			t.Errorf("%s: %q, %v after %d calls", answer, id, err, len(asked.Asked()))
		}
	}
	c, _ := open(t, `200 {"data":{"instance_ids":["i1","i2"]}}`)
	_, err := c.Create(t.Context(), order())
	var failed *cloud.Error
	if !errors.As(err, &failed) || failed.Kind != cloud.Unclear || failed.Instance != "i1" {
		t.Errorf("two instances are %v", err)
	}
}

// TestOddOrders: what Lambda would not take is not sent.
func TestOddOrders(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*cloud.Order){
		"no offer": func(o *cloud.Order) { o.Offer.ID = "" }, "no region": func(o *cloud.Order) { o.Offer.ID = "gpu_1x_a10" },
		"path": func(o *cloud.Order) { o.Offer.ID = "../x" }, "no key": func(o *cloud.Order) { o.SSHKey = "" },
		"no name": func(o *cloud.Order) { o.Name = "" }, "long name": func(o *cloud.Order) { o.Name = strings.Repeat("n", 65) },
		"no script":   func(o *cloud.Order) { o.Script = "join" },
		"long script": func(o *cloud.Order) { o.Script = "#!" + strings.Repeat("x", 1<<20) },
	} {
		o := order()
		spoil(&o)
		c, asked := open(t, `200 {"data":{"instance_ids":["i1"]}}`)
		if _, err := c.Create(t.Context(), o); kindOf(t, err) != cloud.Refused || len(asked.Asked()) > 0 {
			t.Errorf("%s: %v after %q", name, err, asked.Asked())
		}
	}
}

// TestOffers: the cheapest comes first, and no answer is an error.
func TestOffers(t *testing.T) {
	t.Parallel()
	kind := func(name string, cents int) string {
		return fmt.Sprintf(`%q:{"instance_type":{"name":%q,"gpu_description":"A10 (24 GB)","price_cents_per_hour":%d,"specs":{"gpus":1}},
			"regions_with_capacity_available":[{"name":"us-west-1"}]}`, name, name, cents)
	}
	c, asked := open(t, `200 {"data":{`+kind("gpu_a", 99)+`,`+kind("gpu_b", 75)+`}}`)
	all, err := c.Offers(t.Context(), cloud.Want{GPU: "a10"})
	if err != nil || len(all) != 2 || all[0].ID != "gpu_b/us-west-1" || !slices.Equal(asked.Asked(), []string{"GET /instance-types"}) {
		t.Errorf("the offers are %+v, %v after %q", all, err, asked.Asked())
	}
	c, _ = open(t, problem(500, "global/internal-error", "oops"))
	if all, err := c.Offers(t.Context(), cloud.Want{}); kindOf(t, err) != cloud.Unclear || all != nil {
		t.Errorf("no offers are %+v, %v", all, err)
	}
}

// TestNew: a key that cannot be one is refused.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, a := range []call.Account{{}, {Key: "a b c d e f g"}, {Key: key, URL: "http://example.com"}, {Key: key, URL: "::"}} {
		if _, err := lambda.New(a); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
