package lambda

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/provider/cloud"
)

const oneInstance = `{"id":"0920582c7ff041399e34823a0be62549","name":"muster-x","ip":"198.51.100.2","private_ip":"10.0.2.100",
"status":"active",
"ssh_key_names":["k"],"file_system_names":[],"region":{"name":"us-west-1","description":"California, USA"},"instance_type":{"name":
"gpu_8x_h100_sxm5","description":"8x H100 (80 GB SXM5)","gpu_description":"H100 (80 GB SXM5)","price_cents_per_hour":2392,
"specs":{"vcpus":208,"memory_gib":1800,"storage_gib":24780,"gpus":8}},"hostname":"198.51.100.2","jupyter_token":"secret-token",
"jupyter_url":"https://jupyter.example/?token=secret-token","is_reserved":false,"actions":{"terminate":{"available":true}},
"tags":[{"key":"muster:rental","value":"x"},{"key":"muster:launched","value":"2026-06-01T12:00:00Z"}]}`

// read reads the instance with a text in it replaced.
func read(t *testing.T, old, text string) cloud.Instance {
	t.Helper()
	if !strings.Contains(oneInstance, old) {
		t.Fatalf("the instance has no %s", old)
	}
	i, err := readInstance(strings.NewReader(`{"data":` + strings.Replace(oneInstance, old, text, 1) + `}`))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return i
}

func money(m cloud.Money) *cloud.Money { return &m }

// TestInstance: every field, in muster's words. Nothing secret is in it.
func TestInstance(t *testing.T) {
	t.Parallel()
	at, mib := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), int64(81920)
	want := cloud.Instance{
		ID: "0920582c7ff041399e34823a0be62549", Name: "muster-x", Raw: "active", State: cloud.Running, Region: "us-west-1",
		GPU: "H100 (80 GB SXM5)", GPUs: 8, GPUMiB: &mib, Price: money(23_920_000), Running: money(23_920_000), StartedAt: &at,
		SSH: &cloud.Address{Host: "198.51.100.2", Port: 22, User: "ubuntu"},
	}
	got := read(t, "x", "x")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the instance is\n%+v, want\n%+v", got, want)
	}
	text, _ := json.Marshal(got)
	if strings.Contains(string(text), "secret") {
		t.Errorf("a secret is kept: %s", text)
	}
}

// TestStates: each word. It is charged until it is terminated.
func TestStates(t *testing.T) {
	t.Parallel()
	for word, state := range map[string]string{
		"booting": cloud.Starting, "active": cloud.Running, "unhealthy": cloud.Broken, "terminating": cloud.Ending,
		"preempted": cloud.Broken, "hibernated": cloud.Unknown, "": cloud.Unknown, "terminated": cloud.Gone,
	} {
		price := cloud.Money(23_920_000)
		if state == cloud.Gone {
			price = 0
		}
		if i := read(t, `"active"`, `"`+word+`"`); i.State != state || i.Raw != word || i.Price == nil || *i.Price != price {
			t.Errorf("%q is %s for %v", word, i.State, i.Price)
		}
	}
}

// TestUnknown: what is missing or cannot be is not known. It is never zero.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for _, price := range []string{"0", "-5", "null", "9000000000"} {
		if i := read(t, "2392", price); i.Price != nil || i.Running != nil {
			t.Errorf("a price of %s is %v", price, *i.Price)
		}
	}
	if i := read(t, "H100 (80 GB SXM5)\",\"price", "H100\",\"price"); i.GPUMiB != nil {
		t.Errorf("a GPU that does not say so has %d MiB", *i.GPUMiB)
	}
	if i := read(t, "2026-06-01T12:00:00Z", "yesterday"); i.StartedAt != nil {
		t.Errorf("it was started %v", i.StartedAt)
	}
	if i := read(t, "198.51.100.2", "-oProxyCommand=x"); i.SSH != nil {
		t.Errorf("its ssh server is %v", i.SSH)
	}
}

// TestOddInstances: what cannot be told from others, is cut or has another form is an error, and never an empty list.
func TestOddInstances(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "null": "null", "list": "[]", "no data": "{}", "null data": `{"data":null}`, "map": `{"data":{}}`,
		"null instance": `{"data":[null]}`, "no id": `{"data":[{"name":"x"}]}`, "path": `{"data":[{"id":"../x"}]}`,
		"twice": `{"data":[` + oneInstance + `,` + oneInstance + `]}`, "two lists": `{"data":[` + oneInstance + `],"data":[]}`,
		"error": `{"error":{"code":"global/x"}}`, "more": `{"data":[]} {}`, "html": "<html></html>", "text": `{"data":["x"]}`,
	} {
		if all, err := readInstances(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %d instances and no error", name, len(all))
		}
	}
	whole := `{"data":[` + oneInstance + `]}`
	for n := range len(whole) {
		if _, err := readInstances(strings.NewReader(whole[:n])); err == nil {
			t.Fatalf("%d bytes of %d are a list", n, len(whole))
		}
	}
	if all, err := readInstances(strings.NewReader(`{"data":[]}`)); err != nil || len(all) != 0 {
		t.Errorf("an empty list is %v, %v", all, err)
	}
}

const types = `{"data":{"gpu_8x_h100_sxm5":{"instance_type":{"name":"gpu_8x_h100_sxm5","description":"8x H100 (80 GB SXM5)",
"gpu_description":"H100 (80 GB SXM5)","price_cents_per_hour":2392,"specs":{"vcpus":208,"memory_gib":1800,"storage_gib":24780,"gpus":8}},
"regions_with_capacity_available":[{"name":"us-west-1","description":"x"},{"name":"us-east-1","description":"y"}]},
"gpu_1x_gh200":{"instance_type":{"name":"gpu_1x_gh200","description":"1x GH200 (96 GB)","gpu_description":"GH200 (96 GB)",
"price_cents_per_hour":149,"specs":{"vcpus":64,"memory_gib":432,"storage_gib":4096,"gpus":1}},
"regions_with_capacity_available":[{"name":"us-east-3","description":"z"}]},
"cpu_4x":{"instance_type":{"name":"cpu_4x","description":"CPU","gpu_description":"N/A","price_cents_per_hour":10,"specs":{"gpus":0}},
"regions_with_capacity_available":[{"name":"us-east-3","description":"z"}]},
"gpu_1x_a10":{"instance_type":{"name":"gpu_1x_a10","description":"1x A10 (24 GB PCIe)","gpu_description":"A10 (24 GB PCIe)",
"price_cents_per_hour":75,"specs":{"gpus":1}},"regions_with_capacity_available":[]}}}`

// TestOffers: a type with room in a region is an offer.
func TestOffers(t *testing.T) {
	t.Parallel()
	all, err := readOffers(strings.NewReader(types), cloud.Want{})
	if err != nil || len(all) != 3 {
		t.Fatalf("the offers are %+v, %v", all, err)
	}
	cloud.Cheapest(all)
	mib := int64(98304)
	want := cloud.Offer{
		ID: "gpu_1x_gh200/us-east-3", Region: "us-east-3", GPU: "GH200 (96 GB)", GPUs: 1, GPUMiB: &mib, Price: 1_490_000,
	}
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("the cheapest offer is %+v, want %+v", all[0], want)
	}
	for _, w := range []cloud.Want{{GPU: "h100"}, {GPU: "8x_H100-sxm5"}, {GPUs: 2}, {Region: "us-east-1"}} {
		if some, err := readOffers(strings.NewReader(types), w); err != nil || len(some) == 0 || len(some) > 2 || some[0].GPUs != 8 {
			t.Errorf("%+v: %+v, %v", w, some, err)
		}
	}
	for _, odd := range []string{"", "{}", `{"data":null}`, `{"data":[]}`, types[:len(types)-1]} {
		if _, err := readOffers(strings.NewReader(odd), cloud.Want{}); err == nil {
			t.Errorf("%.20q has no error", odd)
		}
	}
	nowhere := strings.Replace(types, `"us-east-3"`, `"../x"`, 1)
	if some, err := readOffers(strings.NewReader(nowhere), cloud.Want{GPU: "gh200"}); err != nil || len(some) != 0 {
		t.Errorf("a region that can be none is %+v, %v", some, err)
	}
	other := strings.Replace(types, `{"name":"gpu_1x_gh200"`, `{"name":"gpu_1x_a10"`, 1)
	if some, err := readOffers(strings.NewReader(other), cloud.Want{GPU: "gh200"}); err != nil || len(some) != 0 {
		t.Errorf("a type under another's name is %+v, %v", some, err)
	}
}

// TestLaunched: one id is a launch. More are a failure that made something.
func TestLaunched(t *testing.T) {
	t.Parallel()
	if ids, err := readLaunched(strings.NewReader(`{"data":{"instance_ids":["a1"]}}`)); err != nil || ids[0] != "a1" {
		t.Errorf("one is %v, %v", ids, err)
	}
	_, err := readLaunched(strings.NewReader(`{"data":{"instance_ids":["a1","a2"]}}`))
	if e, ok := err.(*cloud.Error); !ok || e.Kind != cloud.Unclear || e.Instance != "a1" {
		t.Errorf("two are %v", err)
	}
	for _, odd := range []string{
		"", "{}", `{"data":{"instance_ids":[]}}`, `{"data":{"instance_ids":[""]}}`, `{"data":{"instance_ids":["a/b"]}}`,
	} {
		if ids, err := readLaunched(strings.NewReader(odd)); err == nil {
			t.Errorf("%s is %v", odd, ids)
		}
	}
}

// FuzzInstances: whatever comes, a list without an error has ids that differ and prices that can be.
func FuzzInstances(f *testing.F) {
	for _, seed := range []string{`{"data":[` + oneInstance + `]}`, `{"data":[]}`, `{"data":[{"id":"a"},{"id":"a"}]}`, `{"data":null}`, `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := readInstances(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		known := map[string]bool{}
		for _, i := range all {
			if !cloud.ValidID(i.ID) || known[i.ID] || i.State == "" || i.Price != nil && (*i.Price < 0 || *i.Price > 1_000_000*cloud.Dollar) {
				t.Errorf("an instance is %+v", i)
			}
			known[i.ID] = true
		}
	})
}

// FuzzAnswers: one instance, launches and ends have ids, or are errors.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"data":` + oneInstance + `}`))
	f.Add([]byte(`{"data":{"instance_ids":["a1"]}}`))
	f.Add([]byte(`{"data":{"terminated_instances":[` + oneInstance + `]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if i, err := readInstance(strings.NewReader(string(data))); err == nil && !cloud.ValidID(i.ID) {
			t.Errorf("an instance is %+v", i)
		}
		if ids, err := readLaunched(strings.NewReader(string(data))); err == nil && (len(ids) != 1 || !cloud.ValidID(ids[0])) {
			t.Errorf("a launch is %v", ids)
		}
		ended, _ := readEnded(strings.NewReader(string(data)))
		for _, i := range ended {
			if !cloud.ValidID(i.ID) {
				t.Errorf("it ends %+v", i)
			}
		}
	})
}

// FuzzOffers: an offer costs something and is in a region.
func FuzzOffers(f *testing.F) {
	f.Add([]byte(types))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _ := readOffers(strings.NewReader(string(data)), cloud.Want{})
		for _, o := range all {
			if o.Price <= 0 || o.GPUs < 1 || o.Region == "" || !strings.HasSuffix(o.ID, "/"+o.Region) {
				t.Errorf("an offer is %+v", o)
			}
		}
	})
}

// FuzzJudge: only the code says that an instance is gone.
func FuzzJudge(f *testing.F) {
	f.Add(404, []byte(`{"error":{"code":"global/object-does-not-exist","message":"x"}}`))
	f.Add(404, []byte(`{"error":{"code":"global/not-found","message":"x"}}`))
	f.Add(503, []byte(`{"error":{"code":"provider/internal-unavailable","message":"x","suggestion":"y"}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		kind, text := judge(status, body)
		if kind == cloud.NoSuch && !strings.HasPrefix(text, "global/object-does-not-exist:") {
			t.Errorf("%d %q is %s", status, body, kind)
		}
	})
}
