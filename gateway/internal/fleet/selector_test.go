package fleet_test

import (
	"reflect"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func TestParseSelector(t *testing.T) {
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
		got, err := fleet.ParseSelector(c.selector)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %v, %v, want %v", c.selector, got, err, c.want)
		}
	}
}

func TestParseSelectorRefuses(t *testing.T) {
	for _, selector := range []string{
		" ", ",", "a,", ",a", "a,,b", "=", "=x", "!=x", "!", "!!a", "!a=b", "a b", "a b=c", "-a", "a-", "a/b/c=d", "ä=b", "a=ö",
		"a=\x00", "a= b", "tenant", "!status", "name", strings.Repeat("k", 64), "a=" + strings.Repeat("v", 129),
		strings.TrimSuffix(strings.Repeat("a=b,", 17), ","),
	} {
		terms, err := fleet.ParseSelector(selector)
		if code(err) != wire.CodeBadSelector || hint(err) == "" || terms != nil {
			t.Errorf("%.40q: got %v, %v, want bad_selector with a hint", selector, terms, err)
		}
	}
}

func FuzzParseSelector(f *testing.F) {
	for _, seed := range []string{"", "tier=sovereign,tenant=platform", "a!=b", "!x", "a==b", ",", "a,,b", "status=online", "team/owner",
		"=x", "!=", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, selector string) {
		terms, err := fleet.ParseSelector(selector)
		if err != nil {
			if code(err) != wire.CodeBadSelector {
				t.Fatalf("%q: got %v, want bad_selector", selector, err)
			}
			return
		}
		again, err := fleet.ParseSelector(render(terms))
		if err != nil || !reflect.DeepEqual(again, terms) {
			t.Errorf("%q: got %v, and from %q %v, %v", selector, terms, render(terms), again, err)
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
