package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"muster/gateway/internal/account/secret"
	"slices"
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: "", `{"ab":"cde","f":["gh\u0069",{"jkl":1}],"m\"n":"o\\"}`: "cde|ghi|jkl|m\"n", ` {"abc":"def`: "abc|def", `{"abc`: "abc",
		`{"abc\`:  `abc\`,
		"abc=def": "abc=def", "": "", `["abc"]`: `["abc"]`, `{"x\ud800yz":""}`: "x\ufffdyz", `{"a\qbc":1}`: `a\qbc`,
	} {
		if got := strings.Join(secret.Texts([]byte(body), 3), "|"); got != want {
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
		if got := secret.Texts(body, 0); !slices.Contains(got, back.K[0].(string)) {
			t.Errorf("%q is not among %q", s, got)
		}
		secret.Texts([]byte("{"+s), 0)
	})
}

// TestHeader: what clients put behind the name of a scheme in base64 is looked into, where a token is in there.
func TestHeader(t *testing.T) {
	const token = "msb_ab12_fetch.SECRET"
	basic := base64.StdEncoding.EncodeToString([]byte("robot:" + token))
	unpadded := base64.RawURLEncoding.EncodeToString([]byte("\xff\xfe?" + token))
	innocent := "Basic " + base64.StdEncoding.EncodeToString([]byte("robot:password"))
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, ""}, {[]string{"Bearer " + token}, "Bearer " + token}, {[]string{"Basic " + basic}, "robot:" + token},
		{[]string{"Token\t" + unpadded}, "\xff\xfe?" + token}, {[]string{innocent}, innocent}, {[]string{"t=%6Dsb_ab12"}, "t=msb_ab12"},
		{[]string{"a", "Basic " + basic}, "a\nrobot:" + token},
	} {
		if got := secret.Header(c.values); got != c.want {
			t.Errorf("%q: got %q, want %q", c.values, got, c.want)
		}
	}
	for value, want := range map[string]string{innocent: "robot:password", "Basic !": "", "": "", "x": ""} {
		if got := secret.Decoded(value); got != want {
			t.Errorf("%q: decoded %q, want %q", value, got, want)
		}
	}
}

func TestParts(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "abc": "", " abcd\n": "abcd", "key=some words": "key=some words|some words|some|words", "/nodes/x": "/nodes/x|nodes/x|nodes",
		`"quoted"`: `"quoted"|quoted"|quoted`,
	} {
		if got := strings.Join(slices.Collect(secret.Parts(text, 4)), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for range secret.Parts("some words", 4) {
		break // the others are not asked for
	}
}
