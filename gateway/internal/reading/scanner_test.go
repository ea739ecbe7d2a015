package reading_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
)

func TestScanner(t *testing.T) {
	deep := strings.Repeat("[", wire.MaxDepth+1) + strings.Repeat("]", wire.MaxDepth+1)
	for _, c := range []struct {
		name, body, want string
	}{
		{"members", `{"a":1,"b":{"b":[1,2]}}`, `a=1 b={"b":[1,2]} `},
		{"spaces", " {\n\"a\" :\t1 , \"b\" : {} }\r", `a=1 b={} `},
		{"words", `{"a":null,"b":true,"c":false}`, `a=null b=true c=false `},
		{"escapes and numbers", `{"a":-0.5e+3,"b":"\u00e9\"\\"}`, `a=-0.5e+3 b="\u00e9\"\\" `},
		{"no name", `{"":0}`, `=0 `},
		{"twice", `{"a":1,"a":2}`, `a=1 a=2 `},
		{"no object", `[1]`, ""},
		{"empty", ``, ""},
		{"no members", `{}`, ""},
		{"two objects", `{"a":1}{"b":2}`, ""},
		{"cut off", `{"a":1,"b":{"b":`, ""},
		{"cut off behind a member", `{"a":1`, ""},
		{"something behind", `{"a":1} x`, ""},
		{"a comma too many", `{"a":1,}`, ""},
		{"a comma first", `{,"a":1}`, ""},
		{"a control character", "{\"a\":\"\n\"}", ""},
		{"a leading zero", `{"a":01}`, ""},
		{"a bare point", `{"a":1.}`, ""},
		{"a bad escape", `{"a":"\x"}`, ""},
		{"half a \\u", `{"a":"\u12"}`, ""},
		{"a misspelt word", `{"a":nul}`, ""},
		{"too deep", `{"a":` + deep + `}`, ""},
	} {
		s := reading.Scan([]byte(c.body))
		got := ""
		for s.Next() {
			got += string(s.Name) + "=" + string(s.Value) + " "
		}
		if whole := s.Whole(); whole != (c.want != "") || whole && got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, whole, c.want)
		}
	}
}
