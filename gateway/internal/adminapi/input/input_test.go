package input_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi/input"
)

type filter struct {
	Tenant string       `json:"tenant"`
	Names  []string     `json:"names"`
	All    bool         `json:"all"`
	Since  time.Time    `json:"since"`
	For    api.Duration `json:"for"`
	Least  *int64       `json:"least"`
	Price  *float64     `json:"price"`
	Limit  int          `json:"limit" most:"10" usual:"5"`
	Hidden string       `json:"-"`
}

type body struct {
	api.Wish
	ID   string             `json:"id"`
	User *map[string]string `json:"user"`
}

func now() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC) }

// only is the tenant rule of an account of one tenant.
func only(asked string) (string, error) {
	if asked == "" || asked == "mine" {
		return "mine", nil
	}
	return "", wire.Refuse(wire.CodeForbidden, "another tenant", "leave it out")
}

func TestFilter(t *testing.T) {
	read := func(query string) (f filter, err error) {
		return f, input.Filter(&url.URL{RawQuery: query}, &f, only, now())
	}
	f, err := read("names=a,b&all=1&since=1h&for=2m&least=0&limit=10")
	if err != nil || f.Tenant != "mine" || len(f.Names) != 2 || !f.All || !f.Since.Equal(now().Add(-time.Hour)) ||
		time.Duration(f.For) != 2*time.Minute || *f.Least != 0 || f.Limit != 10 {
		t.Errorf("got %+v, %v", f, err)
	}
	if f, err := read("price=2.5"); err != nil || *f.Price != 2.5 {
		t.Errorf("a price: %+v, %v", f, err)
	}
	if f, err := read("since=2026-11-21T09:00:00Z"); err != nil || f.Limit != 5 || f.Least != nil || f.Since.Hour() != 9 {
		t.Errorf("what is not there: %+v, %v", f, err)
	}
	for query, says := range map[string]string{
		"tenant=other": "another tenant", "odd=1": `unknown parameter "odd"`, "all=1&all=0": "more than once", "all=perhaps": "neither true nor",
		"limit=11": "no number from 1 to 10", "limit=0": "no number from 1", "least=-1": "no number from 0", "price=-1": "no number from 0",
		"price=NaN": "no number from 0",
		"price=Inf": "no number from 0", "price=": "no number from 0", "for=0s": "no duration",
		"since=never": "no time", "%": "malformed", "Hidden=x": "unknown parameter",
	} {
		if _, err := read(query); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", query, err, says)
		}
	}
}

// TestDecode: the fields of a struct within a struct count, and what is wrong is named.
func TestDecode(t *testing.T) {
	var b body
	if err := input.Decode([]byte(`{"sku":"s","count":2,"max_price":1.5,"id":"x","user":{"a":"b"}}`), &b); err != nil ||
		b.SKU != "s" || b.Count != 2 || *b.MaxPrice != 1.5 || b.ID != "x" || (*b.User)["a"] != "b" {
		t.Errorf("got %+v, %v", b, err)
	}
	if err := input.Decode([]byte(" \n"), &b); err != nil || b.SKU != "s" {
		t.Errorf("an empty body: %+v, %v", b, err)
	}
	for text, says := range map[string]string{
		`[]`: "no", `null`: "is not a JSON object", `{`: "is not a JSON object", `{"wish":1}`: `an unknown field "wish"`,
		`{"count":"2"}`: `the field "count" cannot be a string`, `{"max_price":true}`: `the field "max_price" cannot be a bool`,
		`{"id":1}`: `the field "id" cannot be a number`, `{"id":"a","id":"b"}`: "id",
	} {
		if err := input.Decode([]byte(text), new(body)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	var detail *wire.ErrorDetail
	if err := input.Decode([]byte(`{"max_price":"x"}`), new(body)); !errors.As(err, &detail) || detail.Hint != "it takes a number" {
		t.Errorf("a price in words: %+v", detail)
	}
}

// FuzzInput: whatever a request says, it is read or refused.
func FuzzInput(f *testing.F) {
	f.Add("names=a,b&all=1&since=1h&limit=3", `{"sku":"s","count":2}`)
	f.Add("%zz&limit=99999999999999999999", `{"count":1e99,"user":null}`)
	f.Fuzz(func(t *testing.T, query, text string) {
		var q filter
		if err := input.Filter(&url.URL{RawQuery: query}, &q, only, now()); err == nil && (q.Tenant != "mine" || q.Limit < 1 || q.Limit > 10) {
			t.Errorf("%q gives %+v", query, q)
		}
		var detail *wire.ErrorDetail
		if err := input.Decode([]byte(text), new(body)); err != nil && !errors.As(err, &detail) {
			t.Errorf("%q: %v is no refusal", text, err)
		}
	})
}
