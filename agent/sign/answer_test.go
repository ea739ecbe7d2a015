package sign_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"muster/agent/sign"
)

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// edKey is a key made from one repeated byte.
func edKey(b byte) (ed25519.PublicKey, ed25519.PrivateKey) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
	return key.Public().(ed25519.PublicKey), key
}

func TestAnswer(t *testing.T) {
	public, key := edKey(1)
	other, _ := edKey(2)
	good := sign.SignAnswer(key, "e.n", 200, []byte("{}"))
	if err := sign.VerifyAnswer(good, public, "e.n", 200, []byte("{}")); err != nil {
		t.Fatalf("VerifyAnswer = %v", err)
	}
	text := "muster answer v1\ne.n\n200\n" + sign.ContentDigest([]byte("{}"))
	if want := base64Text(ed25519.Sign(key, []byte(text))); good != want {
		t.Errorf("SignAnswer = %s, want the signature over %q", good, text)
	}
	for _, tc := range []struct {
		name, header string
		key          ed25519.PublicKey
		nonce        string
		status       int
		body         string
	}{
		{"no header", "", public, "e.n", 200, "{}"}, {"not base64", "!!", public, "e.n", 200, "{}"},
		{"cut", good[:44], public, "e.n", 200, "{}"}, {"line break", good[:8] + "\n" + good[8:], public, "e.n", 200, "{}"},
		{"other key", good, other, "e.n", 200, "{}"}, {"no key", good, nil, "e.n", 200, "{}"}, {"half a key", good, public[:16], "e.n",
			200, "{}"},
		{"other nonce", good, public, "e.m", 200, "{}"}, {"no nonce", good, public, "", 200, "{}"},
		{"other status", good, public, "e.n", 201, "{}"}, {"other body", good, public, "e.n", 200, "{} "},
		{"status in the nonce", good, public, "e.n\n200", 200, "{}"},
	} {
		if err := sign.VerifyAnswer(tc.header, tc.key, tc.nonce, tc.status, []byte(tc.body)); !errors.Is(err, sign.ErrBadProof) {
			t.Errorf("%s: error = %v, want ErrBadProof", tc.name, err)
		}
	}
}

func TestKeyText(t *testing.T) {
	public, _ := edKey(1)
	if got, err := sign.DecodeKey(sign.EncodeKey(public)); err != nil || !got.Equal(public) {
		t.Errorf("DecodeKey of EncodeKey = %x, %v", got, err)
	}
	good := sign.EncodeKey(public)
	for _, text := range []string{"", "x", good[:40], good + "AAAA", good[:8] + "\n" + good[8:], strings.TrimRight(good, "="), " " + good} {
		if got, err := sign.DecodeKey(text); !errors.Is(err, sign.ErrMalformed) || got != nil {
			t.Errorf("DecodeKey(%q) = %x, %v; want ErrMalformed", text, got, err)
		}
	}
}

func TestEnvelope(t *testing.T) {
	public, key := edKey(1)
	sealed := sign.Seal(key, sign.RoleTask, []byte(`{"a":1}`))
	text := `DSSEv1 32 application/vnd.muster.task+json 7 {"a":1}`
	if want := ed25519.Sign(key, []byte(text)); !bytes.Equal(sealed.Signature, want) {
		t.Errorf("Seal does not sign %q", text)
	}
	data, err := json.Marshal(sealed)
	if err != nil {
		t.Fatal(err)
	}
	var back sign.Envelope
	if err := sign.DecodeStrict(data, &back); err != nil {
		t.Fatal(err)
	}
	if payload, err := back.Open(public, sign.RoleTask); err != nil || string(payload) != `{"a":1}` {
		t.Errorf("Open = %s, %v", payload, err)
	}
	if back.KeyID != sign.KeyID(public) || len(back.KeyID) != 16 {
		t.Errorf("key id = %q, want %q", back.KeyID, sign.KeyID(public))
	}
	if payload, err := sign.Seal(key, sign.RoleTrust, nil).Open(public, sign.RoleTrust); err != nil || len(payload) != 0 {
		t.Errorf("an empty payload: Open = %q, %v", payload, err)
	}
	back.KeyID = "anything" // a hint, never trusted
	if _, err := back.Open(public, sign.RoleTask); err != nil {
		t.Errorf("another key id: %v", err)
	}
}

func TestEnvelopeTampered(t *testing.T) {
	public, key := edKey(1)
	other, _ := edKey(2)
	for name, change := range map[string]func(*sign.Envelope, *ed25519.PublicKey){
		"payload":         func(e *sign.Envelope, _ *ed25519.PublicKey) { e.Payload = []byte(`{"a":2}`) },
		"payload longer":  func(e *sign.Envelope, _ *ed25519.PublicKey) { e.Payload = append(e.Payload, ' ') },
		"no payload":      func(e *sign.Envelope, _ *ed25519.PublicKey) { e.Payload = nil },
		"signature":       func(e *sign.Envelope, _ *ed25519.PublicKey) { e.Signature[5] ^= 1 },
		"signature short": func(e *sign.Envelope, _ *ed25519.PublicKey) { e.Signature = e.Signature[:63] },
		"no signature":    func(e *sign.Envelope, _ *ed25519.PublicKey) { e.Signature = nil },
		"other key":       func(_ *sign.Envelope, k *ed25519.PublicKey) { *k = other },
		"no key":          func(_ *sign.Envelope, k *ed25519.PublicKey) { *k = nil },
		"role":            func(e *sign.Envelope, _ *ed25519.PublicKey) { e.Role = sign.RoleRelease },
	} {
		e := sign.Seal(key, sign.RoleTask, []byte(`{"a":1}`))
		k := public
		change(&e, &k)
		if payload, err := e.Open(k, sign.RoleTask); !errors.Is(err, sign.ErrBadProof) || payload != nil {
			t.Errorf("%s: Open = %q, %v; want ErrBadProof", name, payload, err)
		}
	}
}

func TestRolesDoNotMix(t *testing.T) {
	public, key := edKey(1)
	roles := []sign.Role{sign.RoleTrust, sign.RoleTask, sign.RoleRelease, ""}
	for _, made := range roles {
		for _, wanted := range roles {
			for _, named := range roles {
				e := sign.Seal(key, made, []byte("{}"))
				e.Role = named
				_, err := e.Open(public, wanted)
				if (err == nil) != (made == wanted && named == wanted) {
					t.Errorf("made as %q, named %q, opened as %q: %v", made, named, wanted, err)
				}
			}
		}
	}
}

func FuzzOpenEnvelope(f *testing.F) {
	public, key := edKey(1)
	good, err := json.Marshal(sign.Seal(key, sign.RoleTask, []byte(`{"a":1}`)))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(good), `{}`, `{"role":"task","payload":null,"signature":""}`, `{"role":"trust","payload":"e30="}`,
		`[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e sign.Envelope
		if sign.DecodeStrict(data, &e) != nil {
			return
		}
		if payload, err := e.Open(public, sign.RoleTask); err == nil && string(payload) != `{"a":1}` {
			t.Errorf("%q opens to %q", data, payload)
		}
	})
}
