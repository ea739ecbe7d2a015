package sign_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/agent/sign"
	"muster/agent/wire"
)

// TestEncodeRefuses: bytes that JSON cannot hold are refused wherever they stand, and not changed. The refusal says where they stand, and
// not what stands there: it may be a secret.
func TestEncodeRefuses(t *testing.T) {
	const latin = "lat\xe9"
	for place, v := range map[string]any{
		"the text": latin, "name": &document{Name: latin}, "shared": document{embedded: embedded{Shared: latin}},
		"command[1]": wire.ExecParams{Command: []string{"rm", latin}}, "a[1]": map[string]any{"a": []any{1, latin}},
		"labels (a name in it)": document{Labels: map[string]string{latin: "x"}}, "inner.deep": document{Inner: &inner{latin}},
		"any": document{Any: latin}, "pair[1].deep": document{Pair: [2]inner{{}, {latin}}}, "Bare": document{Bare: latin},
	} {
		raw, err := sign.Encode(v)
		var refusal *wire.ErrorDetail
		if !errors.As(err, &refusal) || refusal.Code != wire.CodeBadRequest ||
			refusal.Message != place+" is not UTF-8, and cannot be sent as it is" {
			t.Errorf("%s: %s, %v", place, raw, err)
		}
	}
}

func TestEncode(t *testing.T) {
	for _, v := range []any{
		nil, 3, "Grüße \ufffd", document{Time: time.Unix(5, 0).UTC(), Raw: json.RawMessage(`"\ufffd"`), Bytes: []byte{0xe9}, Any: (*inner)(nil)},
	} {
		want, _ := json.Marshal(v)
		if raw, err := sign.Encode(v); err != nil || string(raw) != string(want) {
			t.Errorf("%s, %v, want %s", raw, err, want)
		}
	}
	if _, err := sign.Encode(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

// FuzzText: what is encoded is read as it was, and nothing is read into another text.
func FuzzText(f *testing.F) {
	f.Add("lat\xe9")
	f.Add(`\ud800\u0041\\`)
	f.Add(`\ud83d\ude00`)
	f.Fuzz(func(t *testing.T, text string) {
		var back inner
		raw, err := sign.Encode(inner{text})
		if (err == nil) != utf8.ValidString(text) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil && (sign.DecodeStrict(raw, &back) != nil || back.Deep != text) {
			t.Errorf("%q became %q", text, back.Deep)
		}
		raw = []byte(`{"deep":"` + text + `"}`)
		if sign.DecodeStrict(raw, &back) == nil && strings.ContainsRune(back.Deep, utf8.RuneError) &&
			!strings.ContainsRune(text, utf8.RuneError) && !strings.Contains(strings.ToLower(text), `\ufffd`) {
			t.Errorf("%q was read as %q", text, back.Deep)
		}
	})
}
