package sign_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/sign"
)

// vectors reads a file of the top-level testdata/sign into v.
func vectors(t testing.TB, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "sign", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

type enrollVector struct {
	Name, Kind, Secret, Body, MAC, Authorization, Nonce, Answer, Proof string
	KeyHex                                                             string `json:"key_hex"`
	CredentialID                                                       string `json:"credential_id"`
	Status                                                             int
}

func (v enrollVector) key(t *testing.T) []byte {
	t.Helper()
	derive := sign.EnrollKey
	if v.Kind == "psk" {
		derive = sign.PSKKey
	}
	key, err := derive(v.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// The vectors were computed without this code, with Python's hmac and hashlib.
func TestEnrollVectors(t *testing.T) {
	var all []enrollVector
	vectors(t, "enroll.json", &all)
	if len(all) < 4 {
		t.Fatalf("%d vectors", len(all))
	}
	for _, v := range all {
		key := v.key(t)
		if got := hex.EncodeToString(key); got != v.KeyHex {
			t.Errorf("%s: key = %s, want %s", v.Name, got, v.KeyHex)
			continue
		}
		if v.Kind == "psk" && sign.PSKID(key) != v.CredentialID {
			t.Errorf("%s: id = %s, want %s", v.Name, sign.PSKID(key), v.CredentialID)
		}
		if got := sign.Authorization(v.CredentialID, key, []byte(v.Body)); got != v.Authorization {
			t.Errorf("%s: Authorization = %s, want %s", v.Name, got, v.Authorization)
		}
		presented, err := sign.ParseAuthorization(v.Authorization)
		if err != nil || presented.CredentialID != v.CredentialID || presented.Verify(key, []byte(v.Body)) != nil {
			t.Errorf("%s: ParseAuthorization = %v, %v, or it does not verify", v.Name, presented.CredentialID, err)
		}
		if got := sign.WelcomeProof(key, v.Nonce, v.Status, []byte(v.Answer)); got != v.Proof {
			t.Errorf("%s: proof = %s, want %s", v.Name, got, v.Proof)
		}
		if err := sign.VerifyWelcome(v.Proof, key, v.Nonce, v.Status, []byte(v.Answer)); err != nil {
			t.Errorf("%s: VerifyWelcome: %v", v.Name, err)
		}
	}
}

func TestRegisterMACTampered(t *testing.T) {
	key, _ := sign.EnrollKey("one")
	other, _ := sign.EnrollKey("two")
	presented, err := sign.ParseAuthorization(sign.Authorization("mse_abcd", key, []byte(`{"a":1}`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		key  []byte
		body string
	}{
		{"other key", other, `{"a":1}`}, {"no key", nil, `{"a":1}`}, {"other body", key, `{"a":2}`},
		{"longer body", key, `{"a":1}` + "\n"}, {"no body", key, ""},
	} {
		if err := presented.Verify(tc.key, []byte(tc.body)); !errors.Is(err, sign.ErrBadProof) {
			t.Errorf("%s: error = %v, want ErrBadProof", tc.name, err)
		}
	}
	if err := (sign.Presented{}).Verify(key, nil); !errors.Is(err, sign.ErrBadProof) {
		t.Errorf("nothing presented: error = %v, want ErrBadProof", err)
	}
}

func TestWelcomeTampered(t *testing.T) {
	key, _ := sign.EnrollKey("one")
	other, _ := sign.EnrollKey("two")
	const nonce = "AAECAwQFBgcICQoLDA0ODw=="
	good := sign.WelcomeProof(key, nonce, 201, []byte("{}"))
	mac, _ := base64.StdEncoding.DecodeString(good)
	for _, tc := range []struct {
		name, header string
		key          []byte
		nonce        string
		status       int
		body         string
	}{
		{"no proof", "", key, nonce, 201, "{}"},
		{"not base64", "%%%", key, nonce, 201, "{}"},
		{"no padding", strings.TrimRight(good, "="), key, nonce, 201, "{}"},
		{"line break", good[:10] + "\n" + good[10:], key, nonce, 201, "{}"},
		{"cut", base64.StdEncoding.EncodeToString(mac[:16]), key, nonce, 201, "{}"},
		{"a register MAC", strings.Split(sign.Authorization("mse_abcd", key, []byte("{}")), `"`)[3], key, nonce, 201, "{}"},
		{"other key", good, other, nonce, 201, "{}"},
		{"other nonce", good, key, "AAECAwQFBgcICQoLDA0ODg==", 201, "{}"},
		{"no nonce", good, key, "", 201, "{}"},
		{"other status", good, key, nonce, 200, "{}"},
		{"other body", good, key, nonce, 201, "{ }"},
		{"empty body", good, key, nonce, 201, ""},
	} {
		if err := sign.VerifyWelcome(tc.header, tc.key, tc.nonce, tc.status, []byte(tc.body)); !errors.Is(err, sign.ErrBadProof) {
			t.Errorf("%s: error = %v, want ErrBadProof", tc.name, err)
		}
	}
}

// Refusals are proven too, also those of a request that somebody made up to get one. No nonce may make the proof of a refusal fit a
// welcome.
func TestWelcomeProofOfACraftedNonce(t *testing.T) {
	key, _ := sign.EnrollKey("one")
	const nonce, forged, refusal = "AAECAwQFBgcICQoLDA0ODw==", `{"node_id":"evil"}`, `{"error":{}}`
	crafted := nonce + "\n201\n" + forged
	proof := sign.WelcomeProof(key, crafted, 401, []byte(refusal))
	body := forged + "\n401\n" + refusal
	if err := sign.VerifyWelcome(proof, key, nonce, 201, []byte(body)); !errors.Is(err, sign.ErrBadProof) {
		t.Fatalf("a refusal's proof fits another status and body: error = %v, want ErrBadProof", err)
	}
	for _, odd := range []string{crafted, "a\nb", "a b", "a\x00", "ü", strings.Repeat("a", 65)} {
		if err := sign.VerifyWelcome(sign.WelcomeProof(key, odd, 401, nil), key, odd, 401, nil); !errors.Is(err, sign.ErrBadProof) {
			t.Errorf("nonce %q: error = %v, want ErrBadProof", odd, err)
		}
		if sign.WelcomeProof(key, odd, 401, nil) != sign.WelcomeProof(key, "", 401, nil) {
			t.Errorf("nonce %q went into a proof", odd)
		}
	}
}

func TestParseAuthorization(t *testing.T) {
	mac := base64.StdEncoding.EncodeToString(make([]byte, 32))
	short := base64.StdEncoding.EncodeToString(make([]byte, 31))
	long := base64.StdEncoding.EncodeToString(make([]byte, 33))
	withoutMAC := []string{"no mac", "trailing comma", "credential twice", "something more", "something else", "line break in the mac",
		"short mac", "long mac", "stray bits in the mac", "mac not base64"}
	for _, tc := range []struct{ name, header, want string }{
		{"as written", `Muster credential="mse_abcd", mac="` + mac + `"`, "mse_abcd"},
		{"other order", `Muster mac="` + mac + `",credential="msb_abcd"`, "msb_abcd"},
		{"other case of the scheme", `mUSTER credential="psk-0123abcd",  mac="` + mac + `" `, "psk-0123abcd"},
		{"empty", ``, ""},
		{"scheme alone", `Muster`, ""},
		{"other scheme", `Bearer mse_abcd`, ""},
		{"tab after the scheme", "Muster\tcredential=\"mse_abcd\", mac=\"" + mac + `"`, ""},
		{"no mac", `Muster credential="mse_abcd"`, ""},
		{"no credential", `Muster mac="` + mac + `"`, ""},
		{"empty credential", `Muster credential="", mac="` + mac + `"`, ""},
		{"credential twice", `Muster credential="mse_abcd", mac="` + mac + `", credential="mse_abcd"`, ""},
		{"empty credential and another", `Muster credential="", credential="mse_abcd", mac="` + mac + `"`, ""},
		{"credential for mac", `Muster credential="mse_abcd", credential="` + mac + `"`, ""},
		{"something more", `Muster credential="mse_abcd", mac="` + mac + `", realm="x"`, ""},
		{"something else", `Muster credential="mse_abcd", realm="x"`, ""},
		{"no quotes", `Muster credential=mse_abcd, mac=` + mac, ""},
		{"no first quote", `Muster credential=xmse_abcd", mac="` + mac + `"`, ""},
		{"no last quote", `Muster credential="mse_abcdx, mac="` + mac + `"`, ""},
		{"one quote", `Muster credential=", mac="` + mac + `"`, ""},
		{"quote within", `Muster credential="mse_ab"cd", mac="` + mac + `"`, ""},
		{"trailing comma", `Muster credential="mse_abcd", mac="` + mac + `",`, ""},
		{"line break in the mac", "Muster credential=\"mse_abcd\", mac=\"" + mac[:8] + "\n" + mac[8:] + `"`, ""},
		{"short mac", `Muster credential="mse_abcd", mac="` + short + `"`, ""},
		{"long mac", `Muster credential="mse_abcd", mac="` + long + `"`, ""},
		{"stray bits in the mac", `Muster credential="mse_abcd", mac="` + mac[:42] + `B="`, ""},
		{"mac not base64", `Muster credential="mse_abcd", mac="` + strings.Repeat("!", 44) + `"`, ""},
		{"account token", `Muster credential="msa_abcd", mac="` + mac + `"`, ""},
		{"id too short", `Muster credential="mse_abc", mac="` + mac + `"`, ""},
		{"id too long", `Muster credential="mse_` + strings.Repeat("a", 65) + `", mac="` + mac + `"`, ""},
		{"id with a path", `Muster credential="mse_../../x", mac="` + mac + `"`, ""},
		{"psk id in upper case", `Muster credential="psk-0123ABCD", mac="` + mac + `"`, ""},
		{"psk id too short", `Muster credential="psk-0123abc", mac="` + mac + `"`, ""},
		{"psk id not hex", `Muster credential="psk-0123abcg", mac="` + mac + `"`, ""},
		{"whole token", `Muster credential="mse_abcdefghijkl_0123456789", mac="` + mac + `"`, ""},
	} {
		got, err := sign.ParseAuthorization(tc.header)
		named := tc.want
		if slices.Contains(withoutMAC, tc.name) {
			named = "mse_abcd"
		}
		if got.CredentialID != named || (err == nil) != (tc.want != "") || err != nil && !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%s: ParseAuthorization = %q, %v; want %q, that names %q", tc.name, got.CredentialID, err, tc.want, named)
		}
	}
}

func FuzzParseAuthorization(f *testing.F) {
	key, _ := sign.EnrollKey("one")
	good := sign.Authorization("mse_abcd", key, []byte("{}"))
	for _, seed := range []string{good, strings.Replace(good, ", ", ",", 1), good + ",", "Muster ", "Muster =", `Muster "="`,
		`Muster credential="`, `Muster ,,,`, "Bearer x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got, err := sign.ParseAuthorization(header)
		if err != nil {
			if !errors.Is(err, sign.ErrMalformed) || got.Verify([]byte("key"), nil) == nil {
				t.Errorf("%q: %v, %v", header, got.CredentialID, err)
			}
			if got.CredentialID == "" {
				return
			}
		}
		if strings.ContainsAny(got.CredentialID, "\"\\/., \n") || err == nil && strings.Count(header, "=\"") < 2 {
			t.Errorf("%q was read as %q", header, got.CredentialID)
		}
	})
}
