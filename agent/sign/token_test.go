package sign_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"muster/agent/sign"
)

var kinds = []sign.TokenKind{sign.EnrollmentToken, sign.BootstrapToken, sign.AccountToken}

func seeded(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

func token(t testing.TB, kind sign.TokenKind) sign.Token {
	t.Helper()
	got, err := sign.NewToken(kind, seeded(7))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTokenRoundTrip(t *testing.T) {
	for _, kind := range kinds {
		for seed := range byte(50) {
			want, err := sign.NewToken(kind, seeded(seed))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{want.Reveal(), " " + want.Reveal() + "\r\n"} {
				if got, err := sign.ParseToken(text); err != nil || got != want {
					t.Errorf("ParseToken of a new %s = %v, %v", kind, got, err)
				}
			}
			if !strings.HasPrefix(want.Reveal(), want.Public()+"_") || want.Public() != string(kind)+"_"+want.ID {
				t.Errorf("the public part of %s does not begin the token", want.Public())
			}
		}
	}
}

func TestTokenShape(t *testing.T) {
	got := token(t, sign.BootstrapToken)
	if len(got.ID) != 12 || len(got.Fetch) != 22 || len(got.Secret) != 28 {
		t.Errorf("lengths of id, fetch and secret = %d, %d, %d; want 12, 22, 28", len(got.ID), len(got.Fetch), len(got.Secret))
	}
	if want := got.FetchPart() + "." + got.Secret; got.Reveal() != want || got.FetchPart() != got.Public()+"_"+got.Fetch {
		t.Errorf("a bootstrap token is not msb_<id>_<fetch>.<secret>")
	}
	first, _ := sign.NewToken(sign.AccountToken, nil)
	second, _ := sign.NewToken(sign.AccountToken, nil)
	if first.Secret == second.Secret || first.ID == second.ID || first.SecretHash() == second.SecretHash() {
		t.Errorf("two tokens from the default source share a part")
	}
}

func refused(err error) bool {
	return errors.Is(err, sign.ErrMistyped) || errors.Is(err, sign.ErrMalformed)
}

func TestTokenMistyped(t *testing.T) {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-é "
	for _, kind := range kinds {
		text := token(t, kind).Reveal()
		for i := range text {
			for _, c := range letters {
				check(t, text, text[:i]+string(c)+text[i+1:], "change", i)
				check(t, text, text[:i]+string(c)+text[i:], "addition", i)
			}
			check(t, text, text[:i]+text[i+1:], "loss", i)
			check(t, text, text[:i], "cut", i)
			if i > 0 {
				check(t, text, text[:i-1]+text[i:i+1]+text[i-1:i]+text[i+1:], "transposition", i)
			}
		}
	}
}

func check(t *testing.T, right, text, what string, at int) {
	t.Helper()
	if strings.TrimSpace(text) == right {
		return
	}
	_, err := sign.ParseToken(text)
	if !refused(err) {
		t.Errorf("%s at %d of a %s: error = %v, want a refusal", what, at, right[:3], err)
	} else if strings.Contains(err.Error(), text[min(16, len(text)):]) && len(text) > 24 {
		t.Errorf("%s at %d: the error repeats the token", what, at)
	}
}

func TestTokenForms(t *testing.T) {
	body := token(t, sign.EnrollmentToken).Reveal()[4:]
	for _, tc := range []struct {
		name, text string
		want       error
	}{
		{"empty", "", sign.ErrMalformed},
		{"unknown kind", "msx_" + body, sign.ErrMalformed},
		{"upper case kind", "MSE_" + body, sign.ErrMalformed},
		{"of another product", "ghp_0123456789", sign.ErrMalformed},
		{"kind alone", "mse", sign.ErrMalformed},
		{"kind and line", "mse_", sign.ErrMistyped},
		{"another kind's prefix", "msa_" + body, sign.ErrMistyped},
		{"bootstrap without fetch part", "msb_" + body, sign.ErrMistyped},
		{"fetch part alone", token(t, sign.BootstrapToken).FetchPart(), sign.ErrMistyped},
		{"control character", "mse_" + body[:20] + "\x00" + body[21:], sign.ErrMistyped},
		{"twice", "mse_" + body + "mse_" + body, sign.ErrMistyped},
		{"very long", "mse_" + strings.Repeat("a", 1<<16), sign.ErrMistyped},
		{"public part", token(t, sign.EnrollmentToken).Public(), sign.ErrMistyped},
	} {
		if got, err := sign.ParseToken(tc.text); !errors.Is(err, tc.want) || got != (sign.Token{}) {
			t.Errorf("%s: ParseToken = %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}

func TestTokenNeverPrintsItsSecret(t *testing.T) {
	for _, kind := range kinds {
		secret := token(t, kind)
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10v", "%-20s"} {
			fmt.Fprintf(&out, verb, secret)
			fmt.Fprintf(&out, verb, &secret)
			fmt.Fprintf(&out, verb, struct{ T sign.Token }{secret})
			fmt.Fprintf(&out, verb, []any{secret})
		}
		fmt.Fprintln(&out, secret, secret.GoString(), fmt.Errorf("join with %v: %w", secret, sign.ErrMistyped))
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "token", secret, "in", struct{ T sign.Token }{secret})
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "token", secret, "in", struct{ T sign.Token }{secret})
		if err := json.NewEncoder(&out).Encode(map[string]any{"a": secret, "b": &secret}); err != nil {
			t.Fatal(err)
		}
		if leaks(out.String(), secret.Secret) || kind == sign.BootstrapToken && leaks(out.String(), secret.Fetch) {
			t.Errorf("a %s gives its secret away in\n%s", kind, out.String())
		}
		if !strings.Contains(out.String(), secret.Public()) {
			t.Errorf("a printed %s does not name its id", kind)
		}
	}
}

// leaks also looks for hexadecimal, and for the part of the secret that is not its checksum.
func leaks(out, secret string) bool {
	return strings.Contains(out, secret[:22]) || strings.Contains(strings.ToLower(out), fmt.Sprintf("%x", secret[:22]))
}

func TestTokenCharactersAreUnbiased(t *testing.T) {
	// Bytes taken modulo 62 would make the first eight characters a quarter more frequent than the others.
	counts := map[rune]int{}
	source := seeded(3)
	const tokens = 62 * 64
	for range tokens {
		got, err := sign.NewToken(sign.AccountToken, source)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.ID {
			counts[c]++
		}
	}
	for c, n := range counts {
		if want := tokens * 12 / 62; n < want*85/100 || n > want*115/100 {
			t.Errorf("%c stands %d times, want about %d", c, n, want)
		}
	}
	if len(counts) != 62 {
		t.Errorf("%d characters, want 62", len(counts))
	}
	high := io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{248, 255}, 32)), bytes.NewReader(counting(128)))
	if got, err := sign.NewToken(sign.AccountToken, high); err != nil || got.ID != "0123456789AB" {
		t.Errorf("id after 64 bytes of 248 and 255 = %q, %v; want 0123456789AB", got.ID, err)
	}
}

// counting is 0, 1, 2, ...
func counting(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i)
	}
	return out
}

func TestNewTokenWithoutEnoughRandomness(t *testing.T) {
	for _, length := range []int64{0, 1, 63, 64, 100, 128, 191} {
		got, err := sign.NewToken(sign.BootstrapToken, io.LimitReader(seeded(1), length))
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || got != (sign.Token{}) {
			t.Errorf("%d random bytes: NewToken = %v, %v; want an error", length, got, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	for _, kind := range kinds {
		f.Add(token(f, kind).Reveal())
		f.Add(token(f, kind).Public())
	}
	for _, seed := range []string{"", "mse_", "msb_a_b.c", "mse_a_b_c", "msb_aaaa_.0123456789012345678901234567",
		"mse__0123456789012345678901234567", "msa_ü_x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := sign.ParseToken(text)
		switch {
		case err == nil && got.Reveal() != strings.TrimSpace(text):
			t.Errorf("%q was read as %q", text, got.Reveal())
		case err != nil && !refused(err):
			t.Errorf("%q: error = %v", text, err)
		}
	})
}

func TestParseFetchPart(t *testing.T) {
	token, err := sign.NewToken(sign.BootstrapToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sign.ParseFetchPart(token.FetchPart())
	if err != nil || got.Public() != token.Public() || got.Fetch != token.Fetch || got.Secret != "" {
		t.Errorf("got %v %q, %v", got, got.Fetch, err)
	}
	fetch := strings.Repeat("f", 22)
	for text, good := range map[string]bool{
		"msb_ab12_" + fetch: true, "msb_ab1_" + fetch: false, "msb_ab12_" + fetch[1:]: false, "mse_ab12_" + fetch: false,
		"msb_ab12": false, "": false,
		"msb_ab12_" + fetch + ".x": false, token.Reveal(): false, "msb_ab12_" + strings.Repeat("f", 65): false,
		"msb_" + strings.Repeat("a", 65) + "_" + fetch: false,
	} {
		if _, err := sign.ParseFetchPart(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestIsPSKID(t *testing.T) {
	for id, want := range map[string]bool{sign.PSKID([]byte("key")): true, "psk-00c0ffee": true, "mse_abcd": false, "msb_abcd": false,
		"": false} {
		if got := sign.IsPSKID(id); got != want {
			t.Errorf("%q: got %v, want %v", id, got, want)
		}
	}
}

// TestTokenInToken: no id ends so that it would look like the beginning of another token. The first id that comes is such a one.
func TestTokenInToken(t *testing.T) {
	for _, tail := range []string{"mse", "msb", "msa", "msk"} {
		first := strings.Repeat("A", 9) + tail
		draws := make([]byte, 64, 1024)
		for i, letter := range []byte(first) {
			draws[i] = byte(strings.IndexByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", letter))
		}
		got, err := sign.NewToken(sign.AccountToken, bytes.NewReader(draws[:cap(draws)]))
		if err != nil || got.ID != strings.Repeat("0", len(first)) {
			t.Errorf("behind an id with %s came %q, %v", tail, got.ID, err)
		}
	}
}
