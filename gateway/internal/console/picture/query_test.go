package picture_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"muster/gateway/internal/console/picture"
)

// left is what a page says of an address whose parameters it reads.
func left(address string, read func(*picture.Query)) string {
	u := &url.URL{RawQuery: address}
	q := picture.QueryOf(u)
	read(q)
	var all []string
	for _, i := range q.Left() {
		all = append(all, i.What+" "+i.Why)
	}
	return strings.Join(all, "; ")
}

// TestLeft: what a page does not know or cannot use is told, and nothing else is.
func TestLeft(t *testing.T) {
	read := func(q *picture.Query) {
		q.Asked("node")
		q.Whole("grep")
		q.Set("all")
		q.Chosen("range", "hour", "day")
		q.Chosen("view", "", "heat")
		q.Count("rows", 200, 2000)
	}
	for _, c := range []struct{ address, want string }{
		{"", ""},
		{"node=&grep=&all=&range=&view=&rows=", ""},
		{"node=a&grep=+b&all=1&range=day&view=heat&rows=400", ""},
		{"all=true&range=hour&rows=200", ""},
		{"page=x", "page=x this page does not know it"},
		{"all=maybe", "all=maybe it can be 1, true"},
		{"range=nonsense", "range=nonsense it can be hour, day"},
		{"view=map", "view=map it can be heat"},
		{"rows=many", "rows=many it is a number from 200 to 2000"},
		{"rows=1", "rows=1 it is a number from 200 to 2000"},
		{"rows=9999", "rows=9999 it is a number from 200 to 2000"},
		{"node=a&node=b", "node=b it stands there more than once, and the first one counts"},
		{"node=a;x", "a part of the address it cannot be read"},
		{"a%1b=%e2%80%ae", `a\u001b=\u202e this page does not know it`},
		{"a=1&b=2&c=3&d=4&e=5&f=6&g=7", "a=1 this page does not know it; b=2 this page does not know it; c=3 this page does not know it; " +
			"d=4 this page does not know it; e=5 this page does not know it; 2 more parts of the address there are too many to name"},
	} {
		if got := left(c.address, read); got != c.want {
			t.Errorf("%s: got %q, want %q", c.address, got, c.want)
		}
	}
}

// TestValues: a parameter that cannot be used has its usual value.
func TestValues(t *testing.T) {
	q := picture.QueryOf(&url.URL{RawQuery: "node=+a+&grep=+b&range=nonsense&rows=x&all=no&more=300"})
	got := fmt.Sprintf("%q %q %q %d %v %d %q", q.Asked("node"), q.Whole("grep"), q.Chosen("range", "hour", "day"), q.Count("rows", 200, 2000),
		q.Set("all"), q.Count("more", 1, 500), q.Chosen("none", "usual"))
	if want := `"a" " b" "hour" 200 false 300 ""`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzLeft: what is told of an address is short, and has no character that nobody sees.
func FuzzLeft(f *testing.F) {
	f.Add("a=b&a=c&%zz&\u202e=\x00")
	f.Fuzz(func(t *testing.T, address string) {
		got := left(address, func(q *picture.Query) { q.Count("a", 0, 9) })
		if len(got) > 6*1500 || strings.IndexFunc(got, unicode.IsControl) >= 0 {
			t.Errorf("%q: %q", address, got)
		}
	})
}
