package label_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
)

// refusal is the code and the hint of a refusal; empty: the error is none.
func refusal(err error) (code, hint string) {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return refused.Code, refused.Hint
	}
	return "", ""
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		selector string
		want     []label.Term
	}{
		{"", nil},
		{"tier=sovereign", []label.Term{{Key: "tier", Op: "=", Value: "sovereign"}}},
		{"tier==sovereign", []label.Term{{Key: "tier", Op: "=", Value: "sovereign"}}},
		{"tier!=spot", []label.Term{{Key: "tier", Op: "!=", Value: "spot"}}},
		{"tier=", []label.Term{{Key: "tier", Op: "=", Value: ""}}},
		{"gpu", []label.Term{{Key: "gpu", Op: "exists"}}},
		{"!broken", []label.Term{{Key: "broken", Op: "absent"}}},
		{"team/owner=ml", []label.Term{{Key: "team/owner", Op: "=", Value: "ml"}}},
		{"a=b=c", []label.Term{{Key: "a", Op: "=", Value: "b=c"}}},
		{" tier=sovereign , tenant=platform,gpu ", []label.Term{
			{Key: "tier", Op: "=", Value: "sovereign"}, {Key: "tenant", Op: "=", Value: "platform"}, {Key: "gpu", Op: "exists"},
		}},
		{"price_per_hour<2,gpus>=4", []label.Term{{Key: "price_per_hour", Op: "<", Value: "2"}, {Key: "gpus", Op: ">=", Value: "4"}}},
		{"a > 1.5,b <= -2", []label.Term{{Key: "a", Op: ">", Value: "1.5"}, {Key: "b", Op: "<=", Value: "-2"}}},
		{"a<.5,b>5.", []label.Term{{Key: "a", Op: "<", Value: ".5"}, {Key: "b", Op: ">", Value: "5."}}},
		{"a<1,x7", []label.Term{{Key: "a", Op: "<", Value: "1"}, {Key: "x7", Op: "exists"}}},
		{"a=b<c,a!=>c,a==<c", []label.Term{
			{Key: "a", Op: "=", Value: "b<c"}, {Key: "a", Op: "!=", Value: ">c"}, {Key: "a", Op: "=", Value: "<c"},
		}},
		{"gpus=8,gpus!=7", []label.Term{{Key: "gpus", Op: "=", Value: "8"}, {Key: "gpus", Op: "!=", Value: "7"}}},
		{"status=online,state!=retired,name=a,provider=vast_ai,instance_id=7", []label.Term{
			{Key: "status", Op: "=", Value: "online"}, {Key: "state", Op: "!=", Value: "retired"}, {Key: "name", Op: "=", Value: "a"},
			{Key: "provider", Op: "=", Value: "vast_ai"}, {Key: "instance_id", Op: "=", Value: "7"},
		}},
	} {
		got, err := label.ParseSelector(c.selector)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %v, %v, want %v", c.selector, got, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		" ", ",", "a,", ",a", "a,,b", "=", "=x", "!=x", "!", "!!a", "!a=b", "a b", "a b=c", "-a", "a-", "a/b/c=d", "ä=b", "a=ö",
		"a=\x00", "a= b", "tenant", "!status", "name", strings.Repeat("k", 64), "a=" + strings.Repeat("v", 129),
		strings.TrimSuffix(strings.Repeat("a=b,", 17), ","),
		"a!b", "<2", "a<", "a< ", "a<two", "a<1e9", "a<0x1", "a<$2", "a<1.2.3", "a<--1", "a<-",
		"a<.", "a<NaN", "a<<1", "a<>1", "a>=<1", "a=<1", "a=>1", "a b<1", "gpus", "!gpus", "gpus=eight", "gpus>=", "a<1,99", "a>=1,5,b",
		"gpus=04", "gpus=4.0", "gpus!=4.0", "gpus=-4", "gpus==.5",
	} {
		terms, err := label.ParseSelector(text)
		if code, hint := refusal(err); code != wire.CodeBadSelector || hint == "" || terms != nil {
			t.Errorf("%.40q: got %v, %v, want bad_selector with a hint", text, terms, err)
		}
	}
}

// TestRefusalsTeach: a refusal says what is wrong with the number, and how it is written.
func TestRefusalsTeach(t *testing.T) {
	for text, says := range map[string]string{
		"price_per_hour<two":  `"two" is no number`,
		"price_per_hour<1,99": `"1,99" is no number: write it with a dot`,
		"gpus=>4":             "write <= or >=",
		"price_per_hour=<4":   "write <= or >=",
	} {
		_, err := label.ParseSelector(text)
		if _, hint := refusal(err); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(hint, "'price_per_hour<2'") {
			t.Errorf("%q: got %v, want %s", text, err, says)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "8": 8, "1.50": 1.5, ".5": .5, "5.": 5, "-2": -2, "-.5": -.5, "007": 7} {
		if got, ok := label.Number(text); !ok || got != want {
			t.Errorf("%q: got %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-", ".", "-.", "1.2.3", "--1", "+1", "1e3", "0x1", "NaN", "Inf", "1_0", " 1", "1 ", "1-", "two", "1,5"} {
		if got, ok := label.Number(text); ok {
			t.Errorf("%q: is %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "tier=sovereign,tenant=platform", "a!=b", "!x", "a==b", ",", "a,,b", "status=online", "team/owner",
		"=x", "!=", "\x00", "price_per_hour<2,gpus>=4", "a <= -1.5", "a<1,99", "a=>1", "a==<1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		terms, err := label.ParseSelector(text)
		if err != nil {
			if code, _ := refusal(err); code != wire.CodeBadSelector {
				t.Fatalf("%q: got %v, want bad_selector", text, err)
			}
			return
		}
		again, err := label.ParseSelector(render(terms))
		if err != nil || !reflect.DeepEqual(again, terms) {
			t.Errorf("%q: got %v, and from %q %v, %v", text, terms, render(terms), again, err)
		}
	})
}

func render(terms []label.Term) string {
	var parts []string
	for _, term := range terms {
		switch term.Op {
		case "exists":
			parts = append(parts, term.Key)
		case "absent":
			parts = append(parts, "!"+term.Key)
		case "=":
			parts = append(parts, term.Key+"=="+term.Value)
		default: // a value may begin with a sign
			parts = append(parts, term.Key+term.Op+term.Value)
		}
	}
	return strings.Join(parts, ",")
}

// TestMatches has every key and every operator. Package view compares it with the database.
func TestMatches(t *testing.T) {
	subject := &api.NodeRow{Tenant: "x", Name: "n", InstanceID: "7", State: "active", Status: "online",
		Labels: map[string]string{"tier": "spot", "empty": "", "price_per_hour": "1.5"}, GPUs: make([]api.GPU, 8),
		Placement: &api.NodePlacement{Tags: []string{"fabric-bf3", "gpu-nvidia-h100"}}}
	for text, want := range map[string]bool{
		"": true, "tenant=x": true, "tenant=y": false, "name=n": true, "name!=n": false, "instance_id=7": true, "state=active": true,
		"status!=online": false, "provider=": true, "provider!=vast_ai": true, "provider=vast_ai": false, "tier": true, "!tier": false,
		"tier=spot,tenant=x": true, "tier=spot,tenant=y": false, "tier!=spot": false, "none!=spot": true, "none=": false, "empty": true,
		"empty=": true, "!none": true, "none": false, "price_per_hour<2": true, "price_per_hour<=1.50": true, "price_per_hour<1.5": false,
		"price_per_hour>1": true, "price_per_hour>1.5": false, "price_per_hour>=1.5": true, "none<5": false, "none>=0": false,
		"tier<5": false, "tier>=0": false, "empty<5": false, "instance_id>6": true, "instance_id>7": false, "provider<1": false,
		"tag=gpu-nvidia-h100": true, "tag=fabric-bf3": true, "tag=gpu-nvidia-h200": false, "tag!=gpu-nvidia-h100": false, "tag!=none": true,
		"gpus=8": true, "gpus!=8": false, "gpus>=8": true, "gpus<8": false, "gpus>4,price_per_hour<2": true,
	} {
		terms, err := label.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := label.Matches(terms, subject); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if label.Matches([]label.Term{{Key: "tier", Op: "~", Value: "spot"}}, subject) {
		t.Error("an operator that there is not matches")
	}
}

// TestMatchesGPUs: the record counts, then the reading; what is not known passes no comparison.
func TestMatchesGPUs(t *testing.T) {
	eight := 8
	for name, c := range map[string]struct {
		node api.NodeRow
		want map[string]bool
	}{
		"not known":      {api.NodeRow{}, map[string]bool{"gpus<1": false, "gpus>=0": false, "gpus=0": false, "gpus!=8": true}},
		"none":           {api.NodeRow{GPUs: []api.GPU{}}, map[string]bool{"gpus<1": true, "gpus=0": true, "gpus>0": false}},
		"seven of eight": {api.NodeRow{GPUs: make([]api.GPU, 7), GPUsExpected: &eight}, map[string]bool{"gpus>=8": true, "gpus=7": false}},
		"a record alone": {api.NodeRow{GPUsExpected: &eight}, map[string]bool{"gpus>=8": true}},
	} {
		for text, want := range c.want {
			terms, err := label.ParseSelector(text)
			if err != nil {
				t.Fatal(err)
			}
			if got := label.Matches(terms, &c.node); got != want {
				t.Errorf("%s, %q: got %v", name, text, got)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	terms := func(text string) []label.Term {
		parsed, err := label.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, err := range []error{
		label.CheckSelector("dead", "", nil), label.CheckSelector("", "dead", nil), label.CheckSelector("", "", terms("status=dead")),
		label.CheckSelector("", "", terms("a=b,state!=dead")),
	} {
		if code, hint := refusal(err); code != wire.CodeBadSelector || !strings.Contains(hint, "unavailable") {
			t.Errorf("got %v", err)
		}
	}
	if err := label.CheckSelector("online", "retired", terms("status=stale,state=active,tier=dead")); err != nil {
		t.Error(err)
	}
}
