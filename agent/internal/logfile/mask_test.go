package logfile_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/rand/v2"
	"strings"
	"testing"

	"muster/agent/internal/logfile"
	"muster/agent/sign"
)

// secret is one that stands in a text, and what must not be left of it.
type secret struct {
	text  string
	parts []string
}

// secrets are made from a seed: one of each kind, in each place where they are found.
func secrets(t testing.TB, seed byte) []secret {
	random := rand.NewChaCha8([32]byte{seed})
	var all []secret
	add := func(text string, parts ...string) { all = append(all, secret{text, parts}) }
	for _, kind := range []sign.TokenKind{sign.EnrollmentToken, sign.BootstrapToken, sign.AccountToken} {
		token, err := sign.NewToken(kind, random)
		if err != nil {
			t.Fatal(err)
		}
		add(token.Reveal(), token.Secret, token.Secret[:22])
		add(token.Reveal()[:len(token.Reveal())-9], token.Secret[:19]) // cut off
		if kind == sign.BootstrapToken {
			add(strings.Replace(token.Reveal(), ".", "%2E", 1), token.Secret)
		}
	}
	psk, err := sign.NewPSK(random)
	if err != nil {
		t.Fatal(err)
	}
	add(psk, psk[4:])
	block := privateKey(t, random)
	add(block, body(block)...)
	quoted, err := json.Marshal(block)
	if err != nil {
		t.Fatal(err)
	}
	add(`{"key":`+string(quoted)+`}`, body(block)...)
	add(`"current":`+string(quoted), body(block)...)
	word := strings.ToLower(psk[4:20]) + "/+x" // no form by which it could be known
	names := []string{"MUSTER_TOKEN", "DB_PASSWORD_OLD", "clientSecret", "passphrase", "psk", "AWS_SECRET_ACCESS_KEY", "credential"}
	for _, name := range names {
		add(name+"="+word, word)
		add("export "+name+"='"+word+" two words'", word)
		add(name+`="`+word+` \" more" after="`, word)
		add(`msg="it has `+name+`=\"`+word+`\" in it"`, word)
		add(name+" = "+word+" next=1", word)
		add(name+": "+word, word)
		add(`{"`+name+`": "`+word+`", "a": 1}`, word)
		add(`{\"`+name+`\":\"`+word+`\"}`, word)
	}
	add("API_KEYS="+word, word)
	add("api-key: "+word, word)
	for _, flag := range []string{"--token ", "--db-password ", "-psk\t", "--token=", "--api-key ", `--secret "`} {
		add("run "+flag+word, word)
	}
	add("Authorization: Bearer "+word, word)
	add(`authorization: Muster credential="psk-1", mac="`+word+`"`, word)
	add(`-H 'Proxy-Authorization: Digest username="a", response="`+word+`"'`, word)
	add("Set-Cookie: a=1; session="+word, word)
	add("the scheme bearer "+word, word)
	add("Basic "+base64.StdEncoding.EncodeToString([]byte("ada:"+word)), base64.StdEncoding.EncodeToString([]byte("ada:" + word))[4:])
	for _, user := range []string{"ada:", ":", "ada:x@", "ada:a/b"} {
		add("https://"+user+strings.Trim(word, "/+x")+"@gateway.example:7443/path?x=1", strings.Trim(word, "/+x"))
	}
	add("postgres://"+strings.Trim(word, "/+x")+"@db", strings.Trim(word, "/+x"))
	add("eyJhbGciOiJIUzI1NiJ9."+psk[4:]+"."+psk[4:], psk[4:])
	add("docker run -e HF=hf_"+psk[4:], psk[4:])
	add("AKIA"+strings.ToUpper(psk[4:20]), strings.ToUpper(psk[4:20]))
	return all
}

func privateKey(t testing.TB, random *rand.ChaCha8) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// body are the lines of a PEM block.
func body(block string) []string {
	lines := strings.Split(strings.TrimSpace(block), "\n")
	return lines[1 : len(lines)-1]
}

func leaks(masked []byte, one secret) bool {
	for _, part := range one.parts {
		if bytes.Contains(masked, []byte(part)) {
			return true
		}
	}
	return false
}

// TestEachKind: none of the secrets is left, alone and beside other text.
func TestEachKind(t *testing.T) {
	for _, one := range secrets(t, 1) {
		for _, text := range []string{one.text, "before " + one.text + " after", "a=\"" + one.text + "\"\n", "mse_abcd" + one.text} {
			if masked := logfile.NewMasker().Text([]byte(text)); leaks(masked, one) {
				t.Errorf("%q\nis %q", text, masked)
			}
		}
	}
}

// TestWhatStays: what a support person needs is still there.
func TestWhatStays(t *testing.T) {
	for text, want := range map[string]string{
		"time=2026-11-22T15:00:00Z level=INFO msg=\"online\" node=gpu-1\n": "",
		"token mse_abcdEFGH1234_" + strings.Repeat("x", 28) + " used":      "token mse_abcdEFGH1234_*** used",
		"msk_" + strings.Repeat("x", 28):                                   "msk_***",
		"MUSTER_TOKEN=abc LEVEL=debug":                                     "MUSTER_TOKEN=*** LEVEL=debug",
		`{"password":"a","name":"b"}`:                                      `{"password":"***","name":"b"}`,
		"https://ada:pw@gateway.example:7443/x":                            "https://***@gateway.example:7443/x",
		"https://gateway.example:7443/healthz 10.0.0.1:22 a@b.c":           "",
		"NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>'":                  "",
		"basic functionality; the key fits: yes, no token\n":               "",
		"signing_key_id=abc keyid=\"def\"":                                 "",
		"password=\npassword:\n":                                           "",
		"a certificate\n-----BEGIN CERTIFICATE-----\nabc\n":                "",
		"TOKEN_EXPIRES=never":                                              "TOKEN_EXPIRES=***",
	} {
		if want == "" {
			want = text
		}
		if got := string(logfile.NewMasker().Text([]byte(text))); got != want {
			t.Errorf("%q\nis  %q\nnot %q", text, got, want)
		}
	}
}

// TestCutKey: what is left of a private key at the beginning or the end of a text that was cut.
func TestCutKey(t *testing.T) {
	block := privateKey(t, rand.NewChaCha8([32]byte{9}))
	lines := body(block)
	for _, text := range []string{block[30:], block[:100], strings.Join(lines, "\r\n"), "x\n" + strings.Join(lines, "\n") + "\n\nrest"} {
		masked := string(logfile.NewMasker().Text([]byte(text)))
		if strings.Contains(masked, lines[1]) || strings.Contains(masked, lines[0][:40]) {
			t.Errorf("%q\nis %q", text, masked)
		}
	}
}

// TestKnown: a secret that the agent knows is found wherever it stands, in the forms that it gets in URLs too.
func TestKnown(t *testing.T) {
	m := logfile.NewMasker("correct horse/battery", "line one\nline two\n", "short")
	for text, want := range map[string]string{
		"it is correct horse/battery, see": "it is ***, see",
		"?q=correct+horse%2Fbattery&a=b":   "?q=***&a=b",
		"/correct%20horse%2Fbattery":       "/***",
		"line two, and line one":           "***, and ***",
		"in short":                         "in short",
	} {
		if got := string(m.Text([]byte(text))); got != want {
			t.Errorf("%q is %q, not %q", text, got, want)
		}
	}
}

// TestLongLine: a line that nobody reads does not cost much, and hides nothing.
func TestLongLine(t *testing.T) {
	text := "first\n" + strings.Repeat("key=\"", 1<<20) + "\nlast key=abc\n"
	want := "first\n(a line of 5242881 bytes was left out)\nlast key=***\n"
	if got := string(logfile.NewMasker().Text([]byte(text))); got != want {
		t.Errorf("%.200q", got)
	}
	parts := []string{"key=", "key=\"", "key=\\\"'", "-----BEGIN PRIVATE KEY", "--token ", "://a:", "key: ", "msk_", "Cookie:", "basic "}
	for _, part := range parts {
		line := strings.Repeat(part, 8000/len(part)) + "\n"
		logfile.NewMasker().Text([]byte(strings.Repeat(line, 20)))
	}
}

// TestJSON: what is masked stays JSON.
func TestJSON(t *testing.T) {
	m := logfile.NewMasker("correct horse")
	text := `{"a":"token: abc","b":["it is correct horse",1.50,null],"c":{"password":"x","key":"","my_tokens":["y"]},"d":"plain"}`
	want := "{\n  \"a\": \"token: ***\",\n  \"b\": [\n    \"it is ***\",\n    1.50,\n    null\n  ],\n" +
		"  \"c\": {\n    \"key\": \"\",\n    \"my_tokens\": [\n      \"***\"\n    ],\n    \"password\": \"***\"\n  },\n  \"d\": \"plain\"\n}\n"
	if got, err := m.JSON([]byte(text)); err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	if got, err := m.JSON([]byte("{")); err == nil {
		t.Errorf("%s", got)
	}
}

// FuzzText puts a secret between texts of any kind. None of them may bring it through.
func FuzzText(f *testing.F) {
	for i := range 100 {
		f.Add("KEY=\"", "\" x", uint16(i), byte(i))
	}
	f.Add("-----BEGIN ", "", uint16(8), byte(2))
	f.Add("mse_", "-----END", uint16(9), byte(2))
	f.Add(`\`, `"`, uint16(20), byte(2))
	f.Add("://", "@", uint16(50), byte(2))
	f.Fuzz(func(t *testing.T, before, after string, which uint16, seed byte) {
		all := secrets(t, seed)
		one := all[int(which)%len(all)]
		if leaks([]byte(before+"\n"+after), one) {
			t.Skip("the secret is in the other text too")
		}
		if masked := logfile.NewMasker().Text([]byte(before + one.text + after)); leaks(masked, one) {
			t.Errorf("%q\nis %q", before+one.text+after, masked)
		}
	})
}
