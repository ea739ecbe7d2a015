package engine_test

import (
	"bytes"
	"testing"

	"muster/store/engine"
)

func masterKey() []byte { return bytes.Repeat([]byte{7}, 32) }

func TestSeal(t *testing.T) {
	sealer, err := engine.NewSealer(masterKey())
	must(t, err)
	other, err := engine.NewSealer(bytes.Repeat([]byte{9}, 32))
	must(t, err)
	for _, value := range []string{"", "x", "a longer value"} {
		sealed := sealer.Seal("t/c/1", []byte(value))
		if again := sealer.Seal("t/c/1", []byte(value)); again == sealed {
			t.Errorf("%q was sealed twice with one nonce", value)
		}
		got, err := sealer.Open("t/c/1", sealed)
		if err != nil || string(got) != value {
			t.Errorf("got %q, %v; want %q", got, err, value)
		}
		if _, err := sealer.Open("t/c/2", sealed); err == nil {
			t.Errorf("%q opened in another row", value)
		}
		if _, err := other.Open("t/c/1", sealed); err == nil {
			t.Errorf("%q opened with another key", value)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	sealer, err := engine.NewSealer(masterKey())
	must(f, err)
	good := sealer.Seal("t/c/1", []byte("value"))
	for _, seed := range []string{"", "v1:", "v1:AAAA", "v2:" + good[3:], good[:len(good)-4], good + "\n", "v1:!!!!", good[3:]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sealed string) {
		if value, err := sealer.Open("t/c/1", sealed); err == nil && string(value) != "value" { // base64 allows line breaks
			t.Errorf("%q opened as %q", sealed, value)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
