package screen_test

import (
	"testing"

	"muster/gateway/internal/cli/screen"
)

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "日本": 4, "e\u0301": 1, "あア": 4, "한": 2, "😀": 2, "→∀é": 3, "\U00020000": 2} {
		if got := screen.Width(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
}
