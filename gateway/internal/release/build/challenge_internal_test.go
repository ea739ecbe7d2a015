package build

import (
	"maps"
	"strings"
	"testing"
)

func TestChallenge(t *testing.T) {
	for header, want := range map[string]struct {
		scheme     string
		parameters map[string]string
	}{
		`Bearer realm="https://a/token",service="b c",scope="repository:x:pull,push"`: {"bearer",
			map[string]string{"realm": "https://a/token", "service": "b c", "scope": "repository:x:pull,push"}},
		`BASIC Realm=x`:         {"basic", map[string]string{"realm": "x"}},
		`Bearer realm=a , b="c`: {"bearer", map[string]string{"realm": "a", "b": "c"}},
		``:                      {"", map[string]string{}},
		`Bearer`:                {"bearer", map[string]string{}},
		`Bearer ,,,`:            {"bearer", map[string]string{}},
	} {
		scheme, parameters := challenge(header)
		if scheme != want.scheme || !maps.Equal(parameters, want.parameters) {
			t.Errorf("%s: got %q, %q", header, scheme, parameters)
		}
	}
}

// FuzzChallenge: it ends, and gives no more than was there.
func FuzzChallenge(f *testing.F) {
	for _, s := range []string{"", `Bearer realm="a",b=c`, `x a="`, `x =,=`, "x , ="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		_, parameters := challenge(header)
		for _, value := range parameters {
			if !strings.Contains(header, value) {
				t.Errorf("%q: %q", header, value)
			}
		}
	})
}

// FuzzToken: what is taken from a token's answer can stand in a header.
func FuzzToken(f *testing.F) {
	for _, s := range []string{`{"token":"a","expires_in":5}`, `{"access_token":"b"}`,
		`{"token":"a\r\nb"}`, `[]`, `{"token":"x","expires_in":1e9}`} {
		f.Add(s)
	}
	r := &Repository{host: "h", name: "n"}
	f.Fuzz(func(t *testing.T, body string) {
		header, life, err := r.readToken(strings.NewReader(body))
		if err != nil {
			return
		}
		token, ok := strings.CutPrefix(header, "Bearer ")
		if !ok || token == "" || strings.ContainsAny(token, " \r\n\t\x00") || life < leastToken {
			t.Errorf("%q for %s", header, life)
		}
	})
}
