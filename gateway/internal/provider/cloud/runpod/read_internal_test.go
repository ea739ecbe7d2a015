package runpod

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/provider/cloud"
)

const onePod = `{"id":"7h9k2m4n6p","name":"muster-x","image":"i","args":"/bin/sh -c secret-args","disk":50,"ports":["22/tcp"],
"env":{"MUSTER_START":"secret-env"},"registry":null,"status":"RUNNING","actions":["stop","restart","terminate"],
"mounts":{"persistent":{"size":20,"path":"/workspace"}},"gpu":{"id":"NVIDIA GeForce RTX 4090","count":2},"cloud":"SECURE",
"dataCenterId":"US-KS-2","cudaVersion":"12.8","ssh":{"proxy":{"host":"ssh.runpod.io","port":22,"username":"7h9k2m4n6p-64411eb2",
"command":"x"},"direct":{"host":"195.26.233.3","port":34446,"username":"root","command":"ssh root@195.26.233.3 -p 34446"}},"template":null,
"cost":0.88,"locked":false,"globalNetworking":{"enabled":false},"runtime":{"uptime":3600,"gpus":[{"util":1,"memoryUtil":2}]},
"createdAt":"2026-06-01T12:00:00Z","startedAt":"2026-06-01T12:02:00Z"}`

// with is onePod with other members.
func with(t *testing.T, members string) string {
	t.Helper()
	var p, other map[string]any
	for text, into := range map[string]*map[string]any{onePod: &p, members: &other} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range other {
		p[k] = v
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func money(m cloud.Money) *cloud.Money { return &m }

// TestPod: every field, in muster's words. Nothing secret is in it.
func TestPod(t *testing.T) {
	t.Parallel()
	got, err := readPod(strings.NewReader(onePod))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 6, 1, 12, 2, 0, 0, time.UTC)
	want := cloud.Instance{
		ID: "7h9k2m4n6p", Name: "muster-x", Raw: "RUNNING", State: cloud.Running, Region: "US-KS-2", GPU: "NVIDIA GeForce RTX 4090", GPUs: 2,
		Price: money(880_000 + 9_589), Running: money(880_000 + 9_589), Storage: money(5_479), StartedAt: &at,
		SSH: &cloud.Address{Host: "195.26.233.3", Port: 34446, User: "root"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the pod is\n%+v, want\n%+v", got, want)
	}
	text, _ := json.Marshal(got)
	if strings.Contains(string(text), "secret") {
		t.Errorf("a secret is kept: %s", text)
	}
}

// TestPodStates: each word, and what it charges.
func TestPodStates(t *testing.T) {
	t.Parallel()
	running, storage := money(889_589), money(5_479)
	for _, c := range []struct {
		members, state          string
		price, running, storage *cloud.Money
	}{
		{`{"status":"PROVISIONING"}`, cloud.Starting, running, running, storage},
		{`{"status":"PROVISIONING","cost":0}`, cloud.Starting, nil, nil, storage},
		{`{"status":"STARTING"}`, cloud.Starting, running, running, storage},
		{`{"status":"RUNNING"}`, cloud.Running, running, running, storage},
		{`{"status":"RUNNING","cost":0}`, cloud.Running, nil, nil, storage},
		{`{"status":"RUNNING","cost":-1}`, cloud.Running, nil, nil, storage},
		{`{"status":"RUNNING","cost":null}`, cloud.Running, nil, nil, storage},
		{`{"status":"RUNNING","cost":1e300}`, cloud.Running, nil, nil, storage},
		{`{"status":"RUNNING","disk":null}`, cloud.Running, nil, nil, nil},
		{`{"status":"RUNNING","disk":-1}`, cloud.Running, nil, nil, nil},
		{`{"status":"RUNNING","mounts":{"persistent":{"size":-5}}}`, cloud.Running, nil, nil, nil},
		{`{"status":"EXITED","cost":0}`, cloud.Stopped, storage, nil, storage},
		{`{"status":"EXITED","cost":0,"mounts":{}}`, cloud.Stopped, money(0), nil, money(0)},
		{`{"status":"ERROR"}`, cloud.Broken, running, running, storage},
		{`{"status":"TERMINATED","cost":0}`, cloud.Gone, money(0), nil, storage},
		{`{"status":"HIBERNATING"}`, cloud.Unknown, running, running, storage},
		{`{"status":null,"cost":0}`, cloud.Unknown, nil, nil, storage},
	} {
		got, err := readPod(strings.NewReader(with(t, c.members)))
		if err != nil {
			t.Errorf("%s: %v", c.members, err)
			continue
		}
		if got.State != c.state || !reflect.DeepEqual([]*cloud.Money{got.Price, got.Running, got.Storage},
			[]*cloud.Money{c.price, c.running, c.storage}) {
			t.Errorf("%s: %s, price %v, running %v, storage %v", c.members, got.State, got.Price, got.Running, got.Storage)
		}
	}
}

// TestOddPods: what cannot be told from others, is cut or has another form is an error, and never an empty list.
func TestOddPods(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "null": "null", "list": "[]", "no pods": "{}", "null pods": `{"pods":null}`, "object": `{"pods":{}}`,
		"null pod": `{"pods":[null]}`, "no id": `{"pods":[{"name":"x"}]}`, "path": `{"pods":[{"id":"../x"}]}`, "number": `{"pods":[{"id":7}]}`,
		"twice": `{"pods":[` + onePod + `,` + onePod + `]}`, "two lists": `{"pods":[` + onePod + `],"pods":[]}`, "more": `{"pods":[]} {}`,
		"text cost": `{"pods":[` + with(t, `{"cost":"0.4"}`) + `]}`, "errors": `{"errors":[{"message":"x"}]}`, "html": "<html></html>",
	} {
		if all, err := readPods(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %d pods and no error", name, len(all))
		}
	}
	whole := `{"pods":[` + onePod + `]}`
	for n := range len(whole) {
		if _, err := readPods(strings.NewReader(whole[:n])); err == nil {
			t.Fatalf("%d bytes of %d are a list", n, len(whole))
		}
	}
	if all, err := readPods(strings.NewReader(`{"pods":[]}`)); err != nil || len(all) != 0 {
		t.Errorf("an empty list is %v, %v", all, err)
	}
}

// FuzzPods: whatever comes, a list without an error has ids that differ and prices that can be.
func FuzzPods(f *testing.F) {
	for _, seed := range []string{`{"pods":[` + onePod + `]}`, `{"pods":[]}`, `{"pods":[{"id":"a"},{"id":"a"}]}`, `{"pods":null}`, `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := readPods(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, i := range all {
			if !cloud.ValidID(i.ID) || seen[i.ID] || i.State == "" {
				t.Errorf("a pod is %+v", i)
			}
			seen[i.ID] = true
			for _, m := range []*cloud.Money{i.Price, i.Running, i.Storage} {
				if m != nil && (*m < 0 || *m > 2_000_000*cloud.Dollar) {
					t.Errorf("a pod costs %d", *m)
				}
			}
		}
	})
}

// FuzzPod: one pod has an id, or is an error.
func FuzzPod(f *testing.F) {
	f.Add([]byte(onePod))
	f.Add([]byte(`{"id":"a","cost":1e400}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if i, err := readPod(strings.NewReader(string(data))); err == nil && !cloud.ValidID(i.ID) {
			t.Errorf("a pod is %+v", i)
		}
	})
}

// FuzzOffers: an offer costs something, and its id leads back to it.
func FuzzOffers(f *testing.F) {
	f.Add([]byte(catalogue))
	f.Add([]byte(`{"id":"a b/c","price":{"secure":1},"maxCount":{"secure":1},"availability":"LOW"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var g gpuType
		if json.Unmarshal(data, &g) != nil {
			return
		}
		for _, o := range g.offers(tiers[0], cloud.Want{}) {
			back, err := offered(o.ID)
			if err != nil || back.GPU.ID != g.ID || back.GPU.Count != o.GPUs || o.Price <= 0 {
				t.Errorf("the offer %+v is the order %+v, %v", o, back, err)
			}
		}
	})
}

// FuzzOffered: a person can type anything.
func FuzzOffered(f *testing.F) {
	for _, seed := range []string{"secure/US-KS-2/2/NVIDIA+GeForce+RTX+4090", "community//1/x", "secure/%zz/1/x", "a/b/c/d", "secure/x/-1/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if o, err := offered(id); err == nil && (o.GPU.ID == "" || o.GPU.Count < 1 || o.Cloud != "SECURE" && o.Cloud != "COMMUNITY") {
			t.Errorf("%q is the order %+v", id, o)
		}
	})
}

// FuzzJudge: only a problem that says 404 itself is NoSuch.
func FuzzJudge(f *testing.F) {
	f.Add(404, []byte(`{"title":"Not Found","status":404,"detail":"resource not found"}`))
	f.Add(404, []byte(`{"message":"no such page"}`))
	f.Add(422, []byte(`{"title":"x","status":422,"detail":"","errors":["$: a"]}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if kind, _ := judge(status, body); kind != "" && (kind != cloud.NoSuch || status != 404 || !strings.Contains(string(body), "404")) {
			t.Errorf("%d %q is %s", status, body, kind)
		}
	})
}

const catalogue = `{"id":"NVIDIA GeForce RTX 4090","name":"RTX 4090","pool":"ADA_24","manufacturer":"NVIDIA","memory":24,"secure":true,
"community":true,"price":{"secure":0.44,"community":0.31,"serverless":1.1},"maxCount":{"secure":8,"community":4},"availability":"HIGH",
"dataCenters":[{"id":"US-KS-2","name":"US Kansas 2","availability":"HIGH"},{"id":"EU-RO-1","name":"Romania","availability":"NONE"}]}`

// TestOffers: what is in stock, with its disk; and what is not is no offer.
func TestOffers(t *testing.T) {
	t.Parallel()
	offers := func(tier, text string, w cloud.Want) []cloud.Offer {
		var g gpuType
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			t.Fatal(err)
		}
		return g.offers(tier, w)
	}
	mib := int64(24576)
	want := []cloud.Offer{{
		ID: "secure/US-KS-2/2/NVIDIA+GeForce+RTX+4090", Region: "US-KS-2", GPU: "NVIDIA GeForce RTX 4090", GPUs: 2, GPUMiB: &mib,
		Price: 880_000 + 13_698,
	}}
	if got := offers("SECURE", catalogue, cloud.Want{GPU: "rtx4090", GPUs: 2, DiskGB: 100}); !reflect.DeepEqual(got, want) {
		t.Errorf("the offers are %+v, want %+v", got, want)
	}
	if got := offers("COMMUNITY", catalogue, cloud.Want{}); len(got) != 1 || got[0].Price != 310_000+6_849 {
		t.Errorf("the offers of others' machines are %+v", got)
	}
	for name, text := range map[string]string{
		"no stock": strings.ReplaceAll(catalogue, `"HIGH"`, `"NONE"`),
		"not told": strings.ReplaceAll(catalogue, `"availability":"HIGH"`, `"x":1`),
		"free":     strings.Replace(catalogue, "0.44", "0", 1), "no price": strings.Replace(catalogue, "0.44", "null", 1),
		"below zero": strings.Replace(catalogue, "0.44", "-1", 1), "small": strings.Replace(catalogue, `"secure":8`, `"secure":1`, 1),
		"no model": strings.Replace(catalogue, "NVIDIA GeForce RTX 4090", "", 1), "past belief": strings.Replace(catalogue, "0.44", "1e300", 1),
	} {
		if got := offers("SECURE", text, cloud.Want{GPUs: 2}); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	nowhere := strings.Replace(catalogue, "dataCenters", "x", 1)
	if got := offers("SECURE", nowhere, cloud.Want{}); len(got) != 1 || got[0].Region != "" ||
		got[0].ID != "secure//1/NVIDIA+GeForce+RTX+4090" {
		t.Errorf("an offer without a place is %+v", got)
	}
	if o, err := offered("secure//1/NVIDIA+GeForce+RTX+4090"); err != nil || o.DataCenters != nil || o.Cloud != "SECURE" {
		t.Errorf("the order is %+v, %v", o, err)
	}
}
