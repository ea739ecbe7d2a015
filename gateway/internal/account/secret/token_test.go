package secret_test

import (
	"fmt"
	"muster/gateway/internal/account/secret"
	"strings"
	"testing"
)

func FuzzRedact(f *testing.F) {
	for _, s := range []string{"mse_ab12_SECRET", "a msb_ab12_fetch.SECRET b", "msa_mse_ab12_x", "msk_0123456789abcdefg",
		"msk_msk_0123456789abcdefg", "msk_1", "ms", "mse_", "mse__x", "mse_ab12."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := secret.Redact(s)
		if twice := secret.Redact(once); twice != once {
			t.Errorf("Redact(%q) = %q, and again %q", s, once, twice)
		}
		if secret.Carries(s) != (once != s) {
			t.Errorf("Carries(%q) = %v, redacted %q", s, secret.Carries(s), once)
		}
		if !secret.HasToken(s) && once != s {
			t.Errorf("Redact(%q) = %q though there is no token", s, once)
		}
	})
}

func TestTokenID(t *testing.T) {
	for text, want := range map[string]string{"": "", "mse_": "", "Bearer msb_ab12_f.S": "msb_ab12", "msa_ab12": "msa_ab12",
		"mse_0123456789abcdefg": "", "xmsb_a-b": "msb_a"} {
		if got := secret.TokenID(text); got != want {
			t.Errorf("TokenID(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTokenIDs(t *testing.T) {
	many := strings.Repeat("msb_a msb_b ", 200)
	for text, want := range map[string]string{"": "", "msb_none_x mse_ab12 mse_ab12": "msb_none mse_ab12",
		"msa_0123456789abcdefg msb_a": "msb_a", "msa_x msb_a mse_b msa_y": "msb_a mse_b msa_x msa_y", "msb_msa_b": "msb_msa msa_b",
		many: "msb_a msb_b"} {
		if got := strings.Join(secret.TokenIDs(text, "", text), " "); got != want {
			t.Errorf("TokenIDs(%q) = %q, want %q", text, got, want)
		}
	}
	if got := secret.TokenIDs("msk_0123456789abcdefghijklmnopqr msa_x"); len(got) != 1 || got[0] != "msa_x" {
		t.Errorf("a PSK has a public part: %q", got)
	}
	for i := range 300 {
		many += fmt.Sprintf("msb_%d ", i)
	}
	if got := secret.TokenIDs(many); len(got) != 64 {
		t.Errorf("%d ids", len(got))
	}
}

func TestCarries(t *testing.T) {
	for text, want := range map[string][2]bool{"": {}, "x=mse_ab12": {}, "msb_ab12._": {}, "msb_ab12 mse_ab12_x": {true, false},
		"msa_0123456789abcdefg": {true, false},
		"rmsa_x_y":              {true, false}, "msb_ab12_0123456789abcdefghij": {true, true},
		"mse_x mse_ab12-x mse_ab12_0123456789abcdefghi_": {true, true},
		"mse_0123456789abcdefghijklmn":                   {true, true},
		"omsk_1":                                         {}, "msk_0123456789abcdef": {}, "a=msk_0123456789abcdefg": {true, false},
		"msk_0123456789abcdefghijklmnopqr": {true, true}} {
		if got := [2]bool{secret.Carries(text), secret.Whole(text)}; got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestTokenLike(t *testing.T) {
	for text, want := range map[string]bool{"": false, "gpu-7": false, "msb_": true, "mse_ab12": true, "msa__x": true, "msc_ab12": false,
		"mse": false, "farmsa_1": false,
		"x-mse_ab12_SECRET": true, "x-mse_0123456789abcdefg": true, "msk_1": false, "msk_0123456789abcdefg": true} {
		if got := secret.TokenLike(text); got != want {
			t.Errorf("TokenLike(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{"": "", "a%20b": "a b", "%6Dsb%5F": "msb_", "%256D": "m", "%25256D": "%6D", "%zz%6d%": "%zzm%",
		"a+b": "a+b"} {
		if got := secret.Unescape(text); got != want {
			t.Errorf("Unescape(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestHasPSK(t *testing.T) {
	for text, want := range map[string]bool{"": false, "msk_1": false, "mse_0123456789abcdefgh": false, "msk_0123456789abcdefg": true,
		"mse_ab12 x-msk_0123456789abcdefg": true} {
		if got := secret.HasPSK(text); got != want {
			t.Errorf("HasPSK(%q) = %v, want %v", text, got, want)
		}
	}
}
