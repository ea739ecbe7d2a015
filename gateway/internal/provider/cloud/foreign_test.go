package cloud_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"muster/gateway/internal/provider/cloud"
)

// TestPerHour: an odd price is not known. It is never zero.
func TestPerHour(t *testing.T) {
	t.Parallel()
	for _, odd := range []float64{-0.01, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 1_000_001} {
		if p := cloud.PerHour(odd); p != nil {
			t.Errorf("%v is a price of %d", odd, *p)
		}
	}
	for dollars, want := range map[float64]cloud.Money{0: 0, 0.44: 440_000, 2.9999996: 3_000_000, 1e6: 1e12} {
		if p := cloud.PerHour(dollars); p == nil || *p != want {
			t.Errorf("%v is a price of %v, want %d", dollars, p, want)
		}
	}
}

// TestSSHAt: what could be an option or a command of ssh is no address.
func TestSSHAt(t *testing.T) {
	t.Parallel()
	for _, good := range []cloud.Address{
		{Host: "195.26.233.3", Port: 34446, User: "root"}, {Host: "2001:db8::1", Port: 22, User: "ubuntu"},
		{Host: "ssh4.example.com", Port: 1, User: "_a-b"},
	} {
		if at := cloud.SSHAt(good.Host, good.Port, good.User); at == nil || *at != good {
			t.Errorf("%v is the address %v", good, at)
		}
	}
	for _, odd := range []cloud.Address{
		{}, {Host: "-oProxyCommand=x", Port: 22, User: "root"}, {Host: "a b", Port: 22, User: "root"}, {Host: "h", Port: 0, User: "root"},
		{Host: "h", Port: 65536, User: "root"}, {Host: "h", Port: -1, User: "root"}, {Host: "h", Port: 22, User: "-l"}, {Host: "h", Port: 22},
		{Host: "h\n", Port: 22, User: "root"}, {Host: "h;id", Port: 22, User: "root"}, {Host: strings.Repeat("h", 254), Port: 22, User: "root"},
		{Host: "fe80::1%-o", Port: 22, User: "root"}, {Host: "h", Port: 22, User: "root@x"},
	} {
		if at := cloud.SSHAt(odd.Host, odd.Port, odd.User); at != nil {
			t.Errorf("%v is the address %v", odd, *at)
		}
	}
}

// TestValidID: an id can stand in a path.
func TestValidID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"7h9k2m4n6p", "pod_abc123", "0920582c7ff041399e34823a0be62549", "4", strings.Repeat("a", 128)} {
		if !cloud.ValidID(good) {
			t.Errorf("%q is no id", good)
		}
	}
	for _, odd := range []string{"", ".", "..", "a/b", "a?b", "a#b", "a%2fb", "-a", "a b", "a\n", "é", strings.Repeat("a", 129)} {
		if cloud.ValidID(odd) {
			t.Errorf("%q is an id", odd)
		}
	}
}

// TestWhole: an error or another page beside a list is told.
func TestWhole(t *testing.T) {
	t.Parallel()
	for text, whole := range map[string]bool{
		`{}`: true, `{"total":7}`: true, `{"next":null,"has_more":false,"errors":[],"page_token":""}`: true,
		`{"errors":[{}]}`: false, `{"nextCursor":"x"}`: false, `{"hasMore":true}`: false, `{"error":{"code":"x"}}`: false, `{"page":2}`: false,
	} {
		var others map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &others); err != nil {
			t.Fatal(err)
		}
		if err := cloud.Whole(others); (err == nil) != whole {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTakes: each wish alone keeps an offer out, and a zero one none.
func TestTakes(t *testing.T) {
	t.Parallel()
	mib := int64(81920)
	o := cloud.Offer{Host: "m1", Region: "US-KS-2", GPU: "NVIDIA H100 80GB HBM3", GPUs: 8, GPUMiB: &mib, Price: 20 * cloud.Dollar}
	for name, w := range map[string]cloud.Want{
		"all": {}, "model": {GPU: "h100"}, "spelling": {GPU: "nvidia_H100-80gb"}, "alias": {GPU: "H100 SXM"}, "count": {GPUs: 8},
		"memory": {GPUMiB: 81920}, "price": {MaxPrice: 20 * cloud.Dollar}, "region": {Region: "us"},
	} {
		if !w.Takes(o, "H100 SXM") {
			t.Errorf("%s: the offer is not taken", name)
		}
	}
	for name, w := range map[string]cloud.Want{
		"model": {GPU: "A100"}, "count": {GPUs: 9}, "memory": {GPUMiB: 81921}, "price": {MaxPrice: 20*cloud.Dollar - 1},
		"region": {Region: "EU"},
	} {
		if w.Takes(o, "H100 SXM") {
			t.Errorf("%s: the offer is taken", name)
		}
	}
	o.GPUMiB = nil
	if (cloud.Want{GPUMiB: 1}).Takes(o, "") {
		t.Error("an offer whose memory is not known is taken")
	}
}
