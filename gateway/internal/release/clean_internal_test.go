package release

import "testing"

// TestClean: foreign text is bounded, is UTF-8, and moves no cursor.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain\ttext\n": "plain\ttext\n", "\x1b[2J\x00\x7fred": "[2Jred", "gr\xffß": "gr\ufffdß",
		"123456789012345678901234567890x": "2345678901234567890x",
		"ééééééééééé":                     "éééééééééé", "\u202e\u200bab": "ab",
	} {
		if got := clean(text, 20); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
