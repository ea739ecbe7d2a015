package call_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"muster/gateway/internal/provider/cloud/call"
)

type row struct {
	ID int `json:"id"`
}

// TestList: the rows and the other members come, and whatever is not whole is an error.
func TestList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		`{"rows":[]}`: {},
		`{"a":{"rows":1},"rows":[{"id":1},{"id":2,"secret":"x"}],"next":"n"}`: {1, 2},
		"": nil, `{}`: nil, `{"rows":null}`: nil, `{"rows":{}}`: nil, `{"Rows":[]}`: nil, `{"rows":[],"rows":[]}`: nil, `{"rows":[]} x`: nil,
		`{"rows":[]}{}`: nil, `{"rows":[{"id":1}`: nil, `{"rows":[{"id":1}]`: nil, `[]`: nil, `null`: nil, `{"rows":[{"id":"x"}]}`: nil,
		`{"rows":[],"a":`: nil, `<html>`: nil, `{"rows":["`: nil,
	} {
		got := []int{}
		others, err := call.List(strings.NewReader(text), "rows", func(r row) error { got = append(got, r.ID); return nil })
		if want == nil {
			if err == nil {
				t.Errorf("%q is a list", text)
			}
			continue
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
		if len(want) == 2 && string(others["next"]) != `"n"` {
			t.Errorf("%q has the other members %v", text, others)
		}
	}
}

// TestOne: one value, and nothing after it.
func TestOne(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`{"id":1}`: true, ` {"id":1} `: true, `{"id":1}{}`: false, `{"id"`: false, ``: false, `{} x`: false,
	} {
		if err := call.One(strings.NewReader(text), new(row)); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestPlain: what looks like a secret is not shown, and the rest is.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Instance not found":                        "Instance not found",
		"a\nb\x1b[31m":                              "a b[31m",
		"bad key k3y-of-mine here":                  "bad key *** here",
		`invalid {"onstart": "curl x | sh"}`:        `invalid {"***`,
		"bad env: A=1":                              "bad ***",
		"extra_env=[[A, B]]":                        "***",
		"jupyter_token: abc":                        "***",
		"sent Bearer abc":                           "sent ***",
		"got mse_abc_def now":                       "got *** now",
		"a " + strings.Repeat("x", 40) + " b":       "a *** b",
		"the token is not valid":                    "the token is not valid",
		"no environment for it":                     "no environment for it",
		"msg " + strings.Repeat("word ", 200):       "msg " + strings.Repeat("word ", 58) + "wor...",
		"error 404/3603: no_such_ask Instance type": "error 404/3603: no_such_ask Instance type",
	} {
		if got := call.Plain(text, "k3y-of-mine"); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// FuzzList: rows that are taken are rows that the JSON has, and a nil error means that all of them came.
func FuzzList(f *testing.F) {
	for _, seed := range []string{`{"rows":[{"id":1}],"n":1}`, `{"rows":[`, `{"rows":[]}{`, `{"rows":[],"Rows":[{}]}`, `{"rows":null}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got int
		_, err := call.List(strings.NewReader(text), "rows", func(json.RawMessage) error { got++; return nil })
		if err != nil {
			return
		}
		var whole map[string]json.RawMessage
		var all []json.RawMessage
		if json.Unmarshal([]byte(text), &whole) != nil || json.Unmarshal(whole["rows"], &all) != nil || len(all) != got {
			t.Errorf("%q gave %d rows", text, got)
		}
	})
}

// FuzzPlain: the key and muster's tokens are never in what is shown.
func FuzzPlain(f *testing.F) {
	for _, seed := range []string{"", "k3y-of-mine", "k3y-of\x00-mine", "mse_abc", "k3y-ok3y-of-minef-mine", "msebearer _abc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := call.Plain(text, "k3y-of-mine")
		if strings.Contains(got, "k3y-of-mine") || len(got) > 300 || strings.ContainsAny(got, "\n\x1b\x00") {
			t.Errorf("%q is shown as %q", text, got)
		}
	})
}
