package reply_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"muster/gateway/internal/reply"
)

func TestTexts(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: "", `{"ab":"cde","f":["gh\u0069",{"jkl":1}],"m\"n":"o\\"}`: "cde|ghi|jkl|m\"n", ` {"abc":"def`: "abc|def", `{"abc`: "abc", `{"abc\`: `abc\`,
		"abc=def": "abc=def", "": "", `["abc"]`: `["abc"]`, `{"x\ud800yz":""}`: "x\ufffdyz", `{"a\qbc":1}`: `a\qbc`,
	} {
		if got := strings.Join(reply.Texts([]byte(body), 3), "|"); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

// FuzzTexts: no string of a JSON object is missed.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"", "a", `a"b`, `\`, "\x00", "\u2028", "a\\\"", "größer"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		body, err := json.Marshal(map[string]any{"k": []any{s, map[string]string{s: "v"}}})
		var back struct {
			K []any `json:"k"`
		}
		if err != nil || json.Unmarshal(body, &back) != nil {
			t.Fatal(err)
		}
		if got := reply.Texts(body, 0); !slices.Contains(got, back.K[0].(string)) {
			t.Errorf("%q is not among %q", s, got)
		}
		reply.Texts([]byte("{"+s), 0)
	})
}
