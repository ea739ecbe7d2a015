package vast

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/gateway/internal/provider/cloud"
)

// TestPages: what a page must have.
func TestPages(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`{"success":true,"instances_found":1,"total_instances":9,"next_token":"x","instances":[{"id":5}]}`: true,
		`{"total_instances":1,"instances":[{"id":"5"}]}`:                                                   true,
		`{"total_instances":1,"next_token":null,"error":null,"instances":[{"id":5}]}`:                      true,
		`{"total_instances":0,"instances":[]}`:                                                             true,
		`{"total_instances":0,"next_token":"x","instances":[]}`:                                            false,
		`{"total_instances":0,"next_token":7,"instances":[]}`:                                              false,
		`{"total_instances":-1,"instances":[]}`:                                                            false,
		`{"total_instances":"1","instances":[{"id":5}]}`:                                                   false,
		`{"instances":[{"id":5}]}`:                                                                         false,
		`{"instances_found":2,"total_instances":2,"instances":[{"id":5}]}`:                                 false,
		`{"instances_found":null,"total_instances":1,"instances":[{"id":5}]}`:                              true,
		`{"success":false,"total_instances":1,"instances":[{"id":5}]}`:                                     false,
		`{"error":"x","total_instances":1,"instances":[{"id":5}]}`:                                         false,
		`{"total_instances":1,"instances":[{"id":4}]}`:                                                     false, // not after the page before
		`{"total_instances":2,"instances":[{"id":6},{"id":5}]}`:                                            false,
		`{"total_instances":1,"instances":[{}]}`:                                                           false,
		`{"total_instances":1,"instances":[null]}`:                                                         false,
		`{"total_instances":1,"instances":[{"id":5.5}]}`:                                                   false,
		`{"total_instances":1,"instances":[{"id":-5}]}`:                                                    false,
		`{"total_instances":1,"instances":["5"]}`:                                                          false,
	} {
		_, err := readPage(strings.NewReader(text), 4)
		if (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// sane fails for an instance that nobody can have.
func sane(t *testing.T, i cloud.Instance) {
	t.Helper()
	for _, price := range []*cloud.Money{i.Price, i.Running, i.Storage} {
		if price != nil && *price < 0 {
			t.Errorf("a price is %d", *price)
		}
	}
	if i.ID == "" || i.State == "" || i.Raw == "" || i.GPUs < 0 || i.GPUMiB != nil && *i.GPUMiB <= 0 {
		t.Errorf("the instance is %+v", i)
	}
	if text := fmt.Sprintf("%+v", i); strings.ContainsAny(text, "\n\x1b\x00") {
		t.Errorf("the instance has %q", text)
	}
	if i.SSH != nil && (strings.HasPrefix(i.SSH.Host, "-") || strings.ContainsAny(i.SSH.Host, " @;'")) {
		t.Errorf("the address is %+v", i.SSH)
	}
}

// FuzzPage: a page without an error has the rows of the JSON, in order.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		`{"success":true,"instances_found":1,"total_instances":9,"next_token":"x","instances":[{"id":5,"label":"a",` +
			`"actual_status":"running","instance":{"totalHour":1.5},"search":{"diskHour":"0.1"},"ssh_host":"ssh5.vast.ai","ssh_port":1,` +
			`"start_date":1.5e9}]}`,
		`{"total_instances":2,"instances":[{"id":5,"gpu_ram":-1},{"id":6,"actual_status":{},"dph_total":1e400}]}`,
		`{"total_instances":0,"instances":[`, `<html>`, `{"success":false,"error":"auth_error"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := readPage(strings.NewReader(text), 0)
		if err != nil {
			return
		}
		var whole map[string]json.RawMessage
		var rows []json.RawMessage
		if json.Unmarshal([]byte(text), &whole) != nil || json.Unmarshal(whole["instances"], &rows) != nil || len(rows) != len(p.rows) {
			t.Errorf("%q gave %d rows", text, len(p.rows))
		}
		for _, i := range p.rows {
			sane(t, i)
		}
	})
}

// FuzzOne: an instance has the id that was asked for, and only null says that there is none.
func FuzzOne(f *testing.F) {
	for _, seed := range []string{
		`{"instances":{"id":5,"status_msg":"x\n"}}`, `{"instances":null}`, `{"instances":[]}`, `{"instances":{"id":6}}`, `{}`,
		`{"success":false}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		switch i, err := readOne(strings.NewReader(text), "5"); {
		case err != nil:
		case i == nil:
			if !strings.Contains(text, "null") {
				t.Errorf("%q has no instance", text)
			}
		case i.ID != "5":
			t.Errorf("%q is instance %s", text, i.ID)
		default:
			sane(t, *i)
		}
	})
}

// FuzzOffers: an offer has a price, GPUs and an id, and is what is wanted.
func FuzzOffers(f *testing.F) {
	f.Add(`{"offers":[{"id":5,"gpu_name":"H100 SXM","num_gpus":8,"dph_total":2.5,"min_bid":1,"machine_id":7,"reliability2":0.9}]}`, true)
	f.Add(`{"offers":[{"id":5,"gpu_name":"H100","num_gpus":8,"dph_total":-2}]}`, false)
	f.Add(`{"offers":{}}`, false)
	f.Fuzz(func(t *testing.T, text string, bid bool) {
		w := cloud.Want{GPU: "h100", GPUs: 2, MaxPrice: 9 * cloud.Dollar}
		offers, err := readOffers(strings.NewReader(text), w, bid)
		if err != nil {
			return
		}
		for _, o := range offers {
			if o.Price <= 0 || o.Price > w.MaxPrice || o.GPUs < 2 || o.ID == "" || bid != (o.Bid > 0) || !w.Takes(o, "") {
				t.Errorf("%q gives %+v", text, o)
			}
		}
	})
}

// FuzzVerdict: an instance that a verdict names has a number.
func FuzzVerdict(f *testing.F) {
	for _, seed := range []string{`{"success":true,"new_contract":5}`, `{"success":false,"error":["x"],"msg":7,"new_contract":"../1"}`, `[]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		judge(404, []byte(text))
		var v verdict
		if json.Unmarshal([]byte(text), &v) == nil && strings.Trim(v.instance(), "0123456789") != "" {
			t.Errorf("%q names %q", text, v.instance())
		}
		if err := refused(map[string]json.RawMessage{"error": json.RawMessage(text)}); err != nil && !errors.As(err, new(*refusal)) {
			t.Errorf("%q is %v", text, err)
		}
	})
}
