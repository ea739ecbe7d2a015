package runpod_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim/cloudtest"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/runpod"
	"muster/gateway/internal/provider/market"
)

const (
	key    = "rpa_very_secret_key"
	script = "#!/bin/sh\nMUSTER_TOKEN=msk_secret sh -c 'join' --\n"
)

var _ market.Cloud = (*runpod.Cloud)(nil)

// open is an account with a RunPod that gives these answers. It never waits.
func open(t *testing.T, give ...string) (*runpod.Cloud, *cloudtest.Answers) {
	t.Helper()
	a := cloudtest.Answering(t, key, give...)
	c, err := runpod.New(call.Account{URL: a.URL, Key: key, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
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
	if text := err.Error(); strings.Contains(text, key) || strings.Contains(text, "secret") {
		t.Errorf("the error has a secret: %s", text)
	}
	return failed.Kind
}

// problem is an error as RunPod writes it, after its status.
func problem(status int, detail string) string {
	return fmt.Sprintf(`%d {"title":%q,"status":%d,"detail":%q}`, status, http.StatusText(status), status, detail)
}

// podIn is a pod, after a status.
func podIn(status int, id, state string) string {
	return fmt.Sprintf(`%d {"id":%q,"name":"muster-x","status":%q,"disk":50,"cost":0.4,"mounts":{}}`, status, id, state)
}

// TestGet: what each answer means. Only RunPod's own word says that a pod is not there.
func TestGet(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		podIn(200, "p1", "RUNNING"):           "",
		podIn(200, "p2", "RUNNING"):           cloud.Unclear, // another
		`200 {"name":"x"}`:                    cloud.Unclear,
		`200 null`:                            cloud.Unclear,
		`200 `:                                cloud.Unclear,
		`200 <html></html>`:                   cloud.Unclear,
		problem(404, "pod not found"):         cloud.NoSuch,
		`404 {"message":"no Route matched"}`:  cloud.Refused,
		`404 <html>404</html>`:                cloud.Unclear,
		`404 `:                                cloud.Unclear,
		problem(410, "deprecated"):            cloud.Refused,
		problem(401, "missing bearer token"):  cloud.KeyRefused,
		problem(403, "access denied to "+key): cloud.KeyRefused,
		`403 <html>blocked</html>`:            cloud.Unclear,
		`403 {"message":"blocked"}`:           cloud.Unclear,
		problem(429, "too many requests"):     cloud.Limited,
		`429 slow down`:                       cloud.Limited,
		problem(500, "oops"):                  cloud.Unclear,
		problem(503, "oops"):                  cloud.Unclear,
		`302 {}`:                              cloud.Refused,
	} {
		c, _ := open(t, answer)
		i, err := c.Get(t.Context(), "p1")
		if got := kindOf(t, err); got != want || err == nil && i.ID != "p1" || err != nil && i.ID != "" {
			t.Errorf("%s: %+v, %v", answer, i, err)
		}
	}
	c, asked := open(t, podIn(200, "..", "RUNNING"))
	if _, err := c.Get(t.Context(), ".."); kindOf(t, err) != cloud.Refused || len(asked.Asked()) > 0 {
		t.Errorf("a path is asked for: %v, %v", err, asked.Asked())
	}
}

// TestList: members of clusters are listed too, and nothing is taken before the list has ended.
func TestList(t *testing.T) {
	t.Parallel()
	member := `{"id":"p2","status":"RUNNING","cluster":{"id":"c1","rank":0}}`
	c, asked := open(t, `200 {"pods":[{"id":"p1","status":"EXITED"},`+member+`]}`)
	var got []cloud.Instance
	take := func(some []cloud.Instance) { got = append(got, some...) }
	if err := c.List(t.Context(), take); err != nil || len(got) != 2 || !strings.Contains(got[1].Why, "cluster c1") {
		t.Errorf("the list is %+v, %v", got, err)
	}
	if want := []string{"GET /pods?includeClusterPods=true"}; !slices.Equal(asked.Asked(), want) {
		t.Errorf("it asked %q, want %q", asked.Asked(), want)
	}
	c, _ = open(t, `200 {"pods":[{"id":"p1"},{"id":"p2"}`)
	got = nil
	if err := c.List(t.Context(), take); kindOf(t, err) != cloud.Unclear || got != nil {
		t.Errorf("half a list is %+v, %v", got, err)
	}
}

// TestLongList: a list has no pages, and may be longer than another answer.
func TestLongList(t *testing.T) {
	t.Parallel()
	env := strings.Repeat("a", 36<<10)
	rows := make([]string, 250)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":"p%d","status":"RUNNING","env":{"A":"`, i) + env + `"}}`
	}
	c, _ := open(t, `200 {"pods":[`+strings.Join(rows, ",")+"]}")
	n := 0
	if err := c.List(t.Context(), func(some []cloud.Instance) { n += len(some) }); err != nil || n != len(rows) {
		t.Errorf("%d pods, %v", n, err)
	}
}

// TestActs: a pod that is as it shall be is no error. RunPod's no stays one.
func TestActs(t *testing.T) {
	t.Parallel()
	start, stop := (*runpod.Cloud).Start, (*runpod.Cloud).Stop
	not := problem(409, "action not valid for current pod status")
	for name, a := range map[string]struct {
		do    func(*runpod.Cloud, context.Context, string) error
		give  []string
		want  string
		asked int
	}{
		"start":                {start, []string{podIn(200, "p1", "STARTING")}, "", 1},
		"start what runs":      {start, []string{not, podIn(200, "p1", "RUNNING")}, "", 2},
		"start what starts":    {start, []string{not, podIn(200, "p1", "PROVISIONING")}, "", 2},
		"start a member":       {start, []string{not, podIn(200, "p1", "EXITED")}, cloud.Refused, 2},
		"stop":                 {stop, []string{podIn(200, "p1", "EXITED")}, "", 1},
		"stop what is stopped": {stop, []string{not, podIn(200, "p1", "EXITED")}, "", 2},
		"stop what is gone":    {stop, []string{problem(404, "pod not found")}, cloud.NoSuch, 1},
		"stop a locked one":    {stop, []string{not, podIn(200, "p1", "RUNNING")}, cloud.Refused, 2},
		"stop, then gone":      {stop, []string{not, problem(404, "pod not found")}, cloud.NoSuch, 2},
		"stop, then nothing":   {stop, []string{not, problem(500, "oops")}, cloud.Unclear, 2},
		"stop, broken":         {stop, []string{problem(500, "oops")}, cloud.Unclear, 1},
	} {
		c, asked := open(t, a.give...)
		if err := a.do(c, t.Context(), "p1"); kindOf(t, err) != a.want || len(asked.Asked()) != a.asked {
			t.Errorf("%s: %v after %q", name, err, asked.Asked())
		}
		verb, _, _ := strings.Cut(name, " ")
		if want := `POST /pods/p1/action {"action":"` + strings.Trim(verb, ",") + `"}`; asked.Asked()[0] != want {
			t.Errorf("%s: it asked %s, want %s", name, asked.Asked()[0], want)
		}
	}
}

// TestDestroy: what is gone is no error. A member of a cluster is.
func TestDestroy(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"204 ":                        "",
		problem(404, "pod not found"): "",
		`404 <html></html>`:           cloud.Unclear,
		`404 {"message":"no route"}`:  cloud.Refused,
		problem(409, "of a cluster"):  cloud.Refused,
		problem(401, "no"):            cloud.KeyRefused,
		problem(429, "slow down"):     cloud.Limited,
		problem(502, "bad gateway"):   cloud.Unclear,
	} {
		c, asked := open(t, answer)
		if err := c.Destroy(t.Context(), "p1"); kindOf(t, err) != want || !slices.Equal(asked.Asked(), []string{"DELETE /pods/p1"}) {
			t.Errorf("%s: %v after %q", answer, err, asked.Asked())
		}
	}
}

// TestCreate: the script is in the environment alone.
func TestCreate(t *testing.T) {
	t.Parallel()
	o := cloud.Order{Offer: cloud.Offer{ID: "secure/US-KS-2/2/NVIDIA+GeForce+RTX+4090"}, Name: "muster-x", Script: script}
	c, asked := open(t, podIn(201, "p1", "PROVISIONING"))
	if id, err := c.Create(t.Context(), o); err != nil || id != "p1" {
		t.Fatalf("it made %q, %v", id, err)
	}
	var sent map[string]any
	_, body, _ := strings.Cut(asked.Asked()[0], "POST /pods ")
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	args, _ := sent["args"].(string)
	delete(sent, "args")
	got, _ := json.Marshal(sent)
	text, _ := json.Marshal(script)
	want := `{"cloud":"SECURE","dataCenterIds":["US-KS-2"],"disk":50,"env":{"MUSTER_START":` + string(text) + `},"gpu":{"count":2,` +
		`"id":"NVIDIA GeForce RTX 4090"},"image":"runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404","name":"muster-x",` +
		`"ports":["22/tcp"],"startSsh":true}`
	if string(got) != want || !strings.HasPrefix(args, "/bin/sh -c '") || strings.Contains(args, "secret") {
		t.Errorf("it sent %s\nwith %s, want\n%s", got, args, want)
	}
	o.Image, o.DiskGB, o.Offer.ID = "me/mine:1", 200, "community//1/NVIDIA+L4"
	c, asked = open(t, podIn(201, "p1", "PROVISIONING"))
	if _, err := c.Create(t.Context(), o); err != nil || !strings.Contains(asked.Asked()[0], `"image":"me/mine:1"`) ||
		!strings.Contains(asked.Asked()[0], `"disk":200`) || strings.Contains(asked.Asked()[0], "dataCenterIds") {
		t.Errorf("it sent %s, %v", asked.Asked()[0], err)
	}
}

// TestCreateFails: an answer that cannot be read may have made a pod.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	o := cloud.Order{Offer: cloud.Offer{ID: "secure/US-KS-2/2/NVIDIA+L4"}, Name: "muster-x", Script: script}
	for answer, want := range map[string]string{
		problem(400, "no instances available: "+script):      cloud.NoOffer,
		problem(403, "pool not accessible"):                  cloud.NoOffer,
		problem(401, "no"):                                   cloud.KeyRefused,
		problem(402, "insufficient balance"):                 cloud.Refused,
		problem(422, "validation: env MUSTER_START="+script): cloud.Refused,
		problem(429, "slow down"):                            cloud.Limited,
		problem(500, "oops"):                                 cloud.Unclear,
		`400 <html></html>`:                                  cloud.Unclear,
		`403 <html></html>`:                                  cloud.Unclear,
		`201 {"id":"p1"`:                                     cloud.Unclear,
		`201 {}`:                                             cloud.Unclear,
		`201 `:                                               cloud.Unclear,
	} {
		c, asked := open(t, answer)
		if id, err := c.Create(t.Context(), o); kindOf(t, err) != want || id != "" || len(asked.Asked()) != 1 {
			t.Errorf("%s: %q, %v after %d calls", answer, id, err, len(asked.Asked()))
		}
	}
	for _, id := range []string{"", "x", "secure/a/b/c", "secure/a/1/", "secure/a/0/x", "other/a/1/x", "secure/%zz/1/x", "secure/a/1/%zz"} {
		o.Offer.ID = id
		c, asked := open(t, podIn(201, "p1", "PROVISIONING"))
		if _, err := c.Create(t.Context(), o); kindOf(t, err) != cloud.Refused || len(asked.Asked()) > 0 {
			t.Errorf("the offer %q: %v after %q", id, err, asked.Asked())
		}
	}
}

// TestRejoin: a pod of muster's gets another script and keeps the rest of its environment. Another's is left alone.
func TestRejoin(t *testing.T) {
	t.Parallel()
	c, asked := open(t, podIn(201, "p1", "PROVISIONING"))
	if _, err := c.Create(t.Context(), cloud.Order{Offer: cloud.Offer{ID: "secure//1/x"}, Name: "n", Script: script}); err != nil {
		t.Fatal(err)
	}
	var made struct{ Args string }
	_, body, _ := strings.Cut(asked.Asked()[0], "POST /pods ")
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		t.Fatal(err)
	}
	pod := func(id, args string) string {
		text, _ := json.Marshal(map[string]any{"id": id, "args": args, "env": map[string]string{"A": "b", "MUSTER_START": "old"}})
		return "200 " + string(text)
	}
	c, asked = open(t, pod("p1", made.Args), podIn(200, "p1", "RUNNING"), podIn(200, "p1", "STARTING"))
	want := []string{"GET /pods/p1", `PATCH /pods/p1 {"env":{"A":"b","MUSTER_START":"new"}}`, `POST /pods/p1/action {"action":"restart"}`}
	if err := c.Rejoin(t.Context(), "p1", "new"); err != nil || !slices.Equal(asked.Asked(), want) {
		t.Errorf("%v after %q", err, asked.Asked())
	}
	fresh := strings.Replace(pod("p1", made.Args), `"old"`, `"new"`, 1)
	for name, a := range map[string]struct {
		give  []string
		want  string
		asked int
	}{
		"done, and 500":    {[]string{pod("p1", made.Args), problem(500, "oops"), fresh, podIn(200, "p1", "STARTING")}, "", 4},
		"not done, 500":    {[]string{pod("p1", made.Args), problem(500, "oops"), pod("p1", made.Args)}, cloud.Unclear, 3},
		"500, and no look": {[]string{pod("p1", made.Args), problem(500, "oops"), problem(500, "oops")}, cloud.Unclear, 3},
		"another's":        {[]string{pod("p1", "python train.py")}, cloud.Refused, 1},
		"other":            {[]string{pod("p2", made.Args)}, cloud.Unclear, 1},
		"gone":             {[]string{problem(404, "pod not found")}, cloud.NoSuch, 1},
		"of cluster":       {[]string{pod("p1", made.Args), problem(409, "of a cluster")}, cloud.Refused, 2},
		"stopped": {
			[]string{pod("p1", made.Args), podIn(200, "p1", "EXITED"), problem(409, "no"), podIn(200, "p1", "EXITED")}, cloud.Refused, 4,
		},
		"restarting": {
			[]string{pod("p1", made.Args), podIn(200, "p1", "STARTING"), problem(409, "no"), podIn(200, "p1", "STARTING")}, "", 4,
		},
	} {
		c, asked := open(t, a.give...)
		if err := c.Rejoin(t.Context(), "p1", "new"); kindOf(t, err) != a.want || len(asked.Asked()) != a.asked {
			t.Errorf("%s: %v after %q", name, err, asked.Asked())
		}
	}
}

// TestOffers: both tiers are asked, and one that does not answer leaves no half of the offers.
func TestOffers(t *testing.T) {
	t.Parallel()
	const types = `200 {"gpus":[{"id":"NVIDIA L4","name":"L4","memory":24,"price":{"secure":0.4,"community":0.3},
		"maxCount":{"secure":8,"community":8},"availability":"LOW"}]}`
	c, asked := open(t, types)
	all, err := c.Offers(t.Context(), cloud.Want{GPU: "l4", GPUs: 2})
	if err != nil || len(all) != 2 || all[0].ID != "community//2/NVIDIA+L4" || all[1].ID != "secure//2/NVIDIA+L4" {
		t.Errorf("the offers are %+v, %v", all, err)
	}
	want := []string{
		"GET /catalog/gpus?cloud=SECURE&count=2&include=AVAILABILITY&product=POD",
		"GET /catalog/gpus?cloud=COMMUNITY&count=2&include=AVAILABILITY&product=POD",
	}
	if !slices.Equal(asked.Asked(), want) {
		t.Errorf("it asked %q", asked.Asked())
	}
	c, _ = open(t, types, problem(500, "oops"))
	if all, err := c.Offers(t.Context(), cloud.Want{}); kindOf(t, err) != cloud.Unclear || all != nil {
		t.Errorf("half of the offers are %+v, %v", all, err)
	}
}

// TestNew: a key that cannot be one is refused.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, a := range []call.Account{{}, {Key: "a b c d e f g"}, {Key: key, URL: "http://example.com"}, {Key: key, URL: "::"}} {
		if _, err := runpod.New(a); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
