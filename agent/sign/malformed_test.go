package sign_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/sign"
)

// refuses makes each change to a good request and expects ErrMalformed.
func refuses(t *testing.T, changes map[string]func(*http.Request)) {
	t.Helper()
	for name, change := range changes {
		key := signingKey(t)
		r, _ := signed(t, key)
		change(r)
		if s, err := sign.ParseRequest(r); !errors.Is(err, sign.ErrMalformed) || s != nil {
			t.Errorf("%s: ParseRequest = %v, %v; want ErrMalformed", name, s, err)
		}
	}
}

func add(header, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(header, value) }
}

func again(header string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(header, r.Header.Get(header)) }
}

func TestMalformedComponents(t *testing.T) {
	const in = "Signature-Input"
	refuses(t, map[string]func(*http.Request){
		"component missing":           swap(in, ` "@query"`, ""),
		"component twice":             swap(in, `"@query"`, `"@path"`),
		"component more":              swap(in, `"@query"`, `"@query" "@authority"`),
		"component repeated":          swap(in, `"@query"`, `"@query" "@query"`),
		"component's case":            swap(in, `"@query"`, `"@Query"`),
		"component parameter":         swap(in, `"@query"`, `"@query";req`),
		"component not a string":      swap(in, `"@query"`, `query`),
		"no components":               swap(in, `"@method" "@path" "@query" "content-digest"`, ``),
		"component beyond ours":       swap(in, `"content-digest"`, `"content-digest" "@authority"`),
		"no space between components": swap(in, `"@method" "@path"`, `"@method""@path"`),
		"tab between components":      swap(in, `"@method" "@path"`, "\"@method\"\t\"@path\""),
		"list not closed":             swap(in, `"content-digest")`, `"content-digest"`),
	})
}

func TestMalformedParameters(t *testing.T) {
	const in = "Signature-Input"
	refuses(t, map[string]func(*http.Request){
		"alg":                             swap(in, `;tag`, `;alg="ecdsa-p256-sha256";tag`),
		"expires":                         swap(in, `;tag`, `;expires=1999999999;tag`),
		"expires after the tag":           swap(in, `;tag="muster"`, `;tag="muster";expires=1999999999`),
		"a flag":                          swap(in, `;tag`, `;x;tag`),
		"created twice":                   swap(in, `;created`, `;created=1;created`),
		"nonce twice":                     swap(in, `;nonce`, `;nonce="";nonce`),
		"keyid twice":                     swap(in, `;keyid`, `;keyid="";keyid`),
		"tag twice":                       swap(in, `;tag`, `;tag="other";tag`),
		"tag twice, after":                swap(in, `;tag="muster"`, `;tag="muster";tag="other"`),
		"no created":                      swap(in, `;created=1777896000`, ``),
		"created in quotes":               swap(in, `created=1777896000`, `created="1777896000"`),
		"created negative":                swap(in, `created=`, `created=-`),
		"created a decimal":               swap(in, `created=1777896000`, `created=1777896000.5`),
		"created far off":                 swap(in, `created=1777896000`, `created=999999999999999`),
		"created too long":                swap(in, `created=`, `created=000000000000`),
		"created empty":                   swap(in, `created=1777896000`, `created=`),
		"created a flag":                  swap(in, `created=1777896000`, `created`),
		"keyid too short":                 swap(in, `keyid="00`, `keyid="0`),
		"keyid in upper case":             swap(in, `aabbccddeeff"`, `AABBCCDDEEFF"`),
		"keyid a token":                   swap(in, `keyid="`+fingerprint+`"`, `keyid=a`+fingerprint[1:]),
		"nonce without epoch":             swap(in, `nonce="e5.Zk.`, `nonce="e5_Zk_`),
		"nonce too long":                  swap(in, `nonce="`, `nonce="`+strings.Repeat("e", 110)),
		"nonce with a space":              swap(in, `nonce="e5`, `nonce="e 5`),
		"nonce with an escape":            swap(in, `nonce="e5`, `nonce="e\\5`),
		"nonce with a bad escape":         swap(in, `nonce="e5`, `nonce="e\5`),
		"nonce not ASCII":                 swap(in, `nonce="e5`, `nonce="é`),
		"quote missing":                   swap(in, `tag="muster"`, `tag="muster`),
		"trailing comma":                  swap(in, `tag="muster"`, `tag="muster",`),
		"no comma":                        swap(in, `tag="muster"`, `tag="muster" x=()`),
		"leading comma":                   swap(in, `muster=`, `,muster=`),
		"label in upper case":             swap(in, `muster=`, `Muster=`),
		"no label":                        swap(in, `muster=`, ``),
		"foreign value missing":           swap(in, `tag="muster"`, `tag="muster", x=();y=,`),
		"foreign text not ASCII":          swap(in, `tag="muster"`, `tag="muster", x=("é")`),
		"foreign parameter not ASCII":     swap(in, `tag="muster"`, `tag="muster", x=();y="é"`),
		"foreign component without a key": swap(in, `tag="muster"`, `tag="muster", x=("a";)`),
		"foreign bytes not closed":        swap(in, `tag="muster"`, `tag="muster", x=();y=:AA`),
		"nonce too short": func(r *http.Request) {
			before, after, _ := strings.Cut(r.Header.Get(in), `";keyid`)
			r.Header.Set(in, before[:len(before)-7]+`";keyid`+after)
		},
	})
}

func TestMalformedHeaders(t *testing.T) {
	const in, sig, digest = "Signature-Input", "Signature", "Content-Digest"
	refuses(t, map[string]func(*http.Request){
		"no signature":           func(r *http.Request) { r.Header.Del(sig) },
		"no digest":              func(r *http.Request) { r.Header.Del(digest) },
		"two digests":            again(digest),
		"two digests, one empty": add(digest, ""),
		"label twice":            again(in),
		"signature twice":        again(sig),
		"signature twice, empty": add(sig, "muster=::"),
		"label twice, other tag": add(in, `muster=("@method");tag="other"`),
		"other label in one":     swap(sig, "muster=", "mustes="),
		"empty line":             add(in, ""),
		"signature too short":    func(r *http.Request) { r.Header.Set(sig, "muster=:AAAA:") },
		"signature in DER":       func(r *http.Request) { r.Header.Set(sig, "muster=:"+strings.Repeat("AAAA", 24)+":") },
		"signature not base64":   swap(sig, "=:", "=:!"),
		"signature's colon":      swap(sig, "=:", "="),
		"signature's padding":    swap(sig, "==:", ":"),
		"signature a list":       swap(sig, "=:", "=(:"),
		"signature with more":    swap(sig, "==:", "==:;x"),
		"too many":               func(r *http.Request) { r.Header.Set(in, many(20)+r.Header.Get(in)) },
		"two tagged": func(r *http.Request) {
			r.Header.Add(in, "x"+r.Header.Get(in))
			r.Header.Add(sig, "x"+r.Header.Get(sig))
		},
	})
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "sig%d=(), ", i)
	}
	return b.String()
}

func FuzzSignatureInput(f *testing.F) {
	key := signingKey(f)
	r, _ := signed(f, key)
	good := r.Header.Get("Signature-Input")
	for _, seed := range []string{
		good, good + ", " + good, `sig1=("date";req);a=1.5;b=?1;c=:AA==:;d=tok, ` + good, "", "a", "a=", "a=(", `a=("`, `a=("\`,
		`a=("\"");x="\\"`, "a=();", "a=(),", "a=( );tag",
		`a=("x" "y"  "z");created=1;created=2`, "a=();tag=\"muster\"", strings.Repeat("a=();", 50), "\x00", "*=()",
	} {
		f.Add(seed, r.Header.Get("Signature"))
	}
	f.Add(good, "muster=::")
	f.Add(good, "x=:AA==:, muster=:AA")
	f.Fuzz(func(t *testing.T, input, signature string) {
		if member, text, err := sign.FindTagged(input); err == nil && (member == "" || !strings.Contains(input, member+"="+text)) {
			t.Errorf("%q: member %q, text %q", input, member, text)
		}
		q := httptest.NewRequest("POST", r.URL.String(), nil)
		q.Header = http.Header{"Content-Digest": r.Header["Content-Digest"], "Signature-Input": {input}, "Signature": {signature}}
		s, err := sign.ParseRequest(q)
		switch {
		case err != nil && !errors.Is(err, sign.ErrMalformed) && !errors.Is(err, sign.ErrUnsigned):
			t.Errorf("%q: error = %v", input, err)
		case err == nil && s.Verify(q, &key.PublicKey) == nil && !strings.Contains(input, strings.TrimPrefix(good, "muster=")):
			t.Errorf("%q with %q verifies", input, signature)
		}
	})
}
