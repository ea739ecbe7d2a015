package label_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
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
		want     []store.Term
	}{
		{"", nil},
		{"tier=sovereign", []store.Term{{Key: "tier", Op: "=", Value: "sovereign"}}},
		{"tier==sovereign", []store.Term{{Key: "tier", Op: "=", Value: "sovereign"}}},
		{"tier!=spot", []store.Term{{Key: "tier", Op: "!=", Value: "spot"}}},
		{"tier=", []store.Term{{Key: "tier", Op: "=", Value: ""}}},
		{"gpu", []store.Term{{Key: "gpu", Op: "exists"}}},
		{"!broken", []store.Term{{Key: "broken", Op: "absent"}}},
		{"team/owner=ml", []store.Term{{Key: "team/owner", Op: "=", Value: "ml"}}},
		{"a=b=c", []store.Term{{Key: "a", Op: "=", Value: "b=c"}}},
		{" tier=sovereign , tenant=platform,gpu ", []store.Term{
			{Key: "tier", Op: "=", Value: "sovereign"}, {Key: "tenant", Op: "=", Value: "platform"}, {Key: "gpu", Op: "exists"},
		}},
		{"status=online,state!=retired,name=a,provider=vast_ai,instance_id=7", []store.Term{
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
	} {
		terms, err := label.ParseSelector(text)
		if code, hint := refusal(err); code != wire.CodeBadSelector || hint == "" || terms != nil {
			t.Errorf("%.40q: got %v, %v, want bad_selector with a hint", text, terms, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "tier=sovereign,tenant=platform", "a!=b", "!x", "a==b", ",", "a,,b", "status=online", "team/owner",
		"=x", "!=", "\x00"} {
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

func render(terms []store.Term) string {
	var parts []string
	for _, term := range terms {
		switch term.Op {
		case "exists":
			parts = append(parts, term.Key)
		case "absent":
			parts = append(parts, "!"+term.Key)
		case "=":
			parts = append(parts, term.Key+"=="+term.Value)
		default:
			parts = append(parts, term.Key+term.Op+term.Value)
		}
	}
	return strings.Join(parts, ",")
}

// TestMatches has every key and every operator. Package view compares it with the database.
func TestMatches(t *testing.T) {
	subject := &api.NodeRow{Tenant: "x", Name: "n", InstanceID: "7", State: "active", Status: "online",
		Labels: map[string]string{"tier": "spot", "empty": ""}}
	for text, want := range map[string]bool{
		"": true, "tenant=x": true, "tenant=y": false, "name=n": true, "name!=n": false, "instance_id=7": true, "state=active": true,
		"status!=online": false, "provider=": true, "provider!=vast_ai": true, "provider=vast_ai": false, "tier": true, "!tier": false,
		"tier=spot,tenant=x": true, "tier=spot,tenant=y": false, "tier!=spot": false, "none!=spot": true, "none=": false, "empty": true,
		"empty=": true, "!none": true, "none": false,
	} {
		terms, err := label.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := label.Matches(terms, subject); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if label.Matches([]store.Term{{Key: "tier", Op: "~", Value: "spot"}}, subject) {
		t.Error("an operator that there is not matches")
	}
}

func TestCheck(t *testing.T) {
	terms := func(text string) []store.Term {
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
