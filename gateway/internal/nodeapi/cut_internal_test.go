package nodeapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestCutMember(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	for _, c := range []struct {
		name, body, rest, value string
	}{
		{"the last", `{"a":1,"hardware":{"b":[1,2]}}`, `{"a":1}`, `{"b":[1,2]}`},
		{"in the middle", `{"a":1, "hardware" : {} , "z":"x"}`, `{"a":1 , "z":"x"}`, `{}`},
		{"null", `{"a":1,"hardware":null}`, `{"a":1}`, `null`},
		{"escapes and numbers", `{"a":-0.5e+3,"hardware":"\u00e9\"\\"}`, `{"a":-0.5e+3}`, `"\u00e9\"\\"`},
		{"the first", `{"hardware":{},"a":1}`, "", ""},
		{"twice", `{"a":1,"hardware":{},"hardware":{}}`, "", ""},
		{"not there", `{"a":1}`, "", ""},
		{"inside another", `{"a":{"hardware":{}}}`, "", ""},
		{"no object", `[1]`, "", ""},
		{"empty", ``, "", ""},
		{"cut off", `{"a":1,"hardware":{"b":`, "", ""},
		{"something behind", `{"a":1,"hardware":{}} x`, "", ""},
		{"a comma too many", `{"a":1,"hardware":{},}`, "", ""},
		{"a control character", "{\"a\":1,\"hardware\":\"\n\"}", "", ""},
		{"a leading zero", `{"a":1,"hardware":01}`, "", ""},
		{"a bare point", `{"a":1,"hardware":1.}`, "", ""},
		{"a bad escape", `{"a":1,"hardware":"\x"}`, "", ""},
		{"half a \\u", `{"a":1,"hardware":"\u12"}`, "", ""},
		{"a misspelt word", `{"a":1,"hardware":nul}`, "", ""},
		{"too deep", `{"a":1,"hardware":` + deep + `}`, "", ""},
	} {
		rest, value, ok := cutMember([]byte(c.body), "hardware")
		if ok != (c.value != "") || ok && (string(rest) != c.rest || string(value) != c.value) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", c.name, rest, value, ok, c.rest, c.value)
		}
	}
}

// FuzzReadHeartbeat holds the shortcut against encoding/json, which has the word.
func FuzzReadHeartbeat(f *testing.F) {
	for _, seed := range []string{
		`{"run_id":"0123456789abcdef","counter":7,"interval_seconds":30,"hardware":{"probe":{"state":"ok"},"gpus":[{"index":0}]}}`,
		`{"counter":1,"Hardware":{"a":1},"hardware":{"b":2}}`,
		`{"counter":1,"h\u0061rdware":{"a":1},"hardware":{"b":2}}`,
		`{"counter":1,"hardware":null,"hardware":{"b":2}}`,
		`{"counter":1,"hardware":[[[[1.5e3,true,"x\n"]]]],"notices":["a"]}`,
		`{"counter":1e2,"hardware":{}}`, `{"hardware":1}`, `{}`, `nul`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, gotErr := readHeartbeat(bytes.Clone(body))
		var want heartbeat
		wantErr := decode(body, &want)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json: %v", body, gotErr, wantErr)
		}
		if gotErr != nil {
			return
		}
		got.scanned = false
		a, b := encoded(t, got), encoded(t, want)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q: %s, encoding/json: %s", body, a, b)
		}
	})
}

func encoded(t *testing.T, b heartbeat) []byte {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
