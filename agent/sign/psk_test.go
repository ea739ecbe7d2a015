package sign_test

import (
	"errors"
	"strings"
	"testing"

	"muster/agent/sign"
)

func TestPSK(t *testing.T) {
	psk, err := sign.NewPSK(nil)
	if err != nil || !strings.HasPrefix(psk, "msk_") || len(psk) != len("msk_")+28 || sign.CheckPSK(psk) != nil {
		t.Fatalf("got %d characters, %v", len(psk), err)
	}
	if other, _ := sign.NewPSK(nil); other == psk {
		t.Error("twice the same")
	}
	if _, err := sign.NewPSK(strings.NewReader("short")); err == nil {
		t.Error("made from too little randomness")
	}
	for i := len("msk_"); i < len(psk); i++ {
		changed := "0"
		if psk[i] == '0' {
			changed = "1"
		}
		for _, wrong := range []string{psk[:i] + changed + psk[i+1:], psk[:i] + psk[i+1:], psk[:i] + "-" + psk[i+1:],
			psk[:i] + " " + psk[i:], psk[:i]} {
			if err := sign.CheckPSK(wrong); !errors.Is(err, sign.ErrMistypedPSK) || strings.Contains(err.Error(), psk[4:8]) {
				t.Errorf("changed at %d: %v", i, err)
			}
		}
	}
	for _, chosen := range []string{"", "correct horse battery staple", "MSK_" + psk[4:], psk[4:], "x" + psk} {
		if err := sign.CheckPSK(chosen); err != nil {
			t.Errorf("%q: %v", chosen, err)
		}
	}
}

func FuzzCheckPSK(f *testing.F) {
	psk, _ := sign.NewPSK(nil)
	for _, s := range []string{psk, psk[:20], "msk_", "msk", "", "msk_" + strings.Repeat("0", 28)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := sign.CheckPSK(s)
		if err != nil && !strings.HasPrefix(s, sign.PSKPrefix) || err == nil && strings.HasPrefix(s, sign.PSKPrefix) && len(s) != len(psk) {
			t.Errorf("%q: %v", s, err)
		}
	})
}
