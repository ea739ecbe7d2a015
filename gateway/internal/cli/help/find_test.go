package help_test

import (
	"slices"
	"strings"
	"testing"

	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/health/condition"
)

// TestFind: each word leads to a page or a section that is there, and says what it is about. No word is a page's name or stands twice.
func TestFind(t *testing.T) {
	words := help.Words()
	if len(words) < 50 {
		t.Fatalf("there are %d words: the test would keep nothing", len(words))
	}
	for i, word := range words {
		place, found := help.Find(strings.ToUpper(word))
		if !found || place.Subject() == "" || strings.Count(place.Text(), "\n") < 3 {
			t.Errorf("%s leads to %+v, which is not there", word, place)
		}
		if slices.Contains(help.Names(), word) || slices.Contains(words[:i], word) || word != strings.ToLower(word) {
			t.Errorf("%s is a page's name, or stands twice, or is not in small letters", word)
		}
	}
	for _, word := range []string{"quickstart", "ssh", "jupyter", "nginx", "price", "exit code"} {
		if _, found := help.Find(word); !found {
			t.Errorf("%s leads nowhere", word)
		}
	}
	for _, c := range condition.All() {
		if place, _ := help.Find(c.Name); place.Page != "conditions" {
			t.Errorf("%s leads to %+v", c.Name, place)
		}
	}
	for _, name := range help.Names() {
		if place, found := help.Find(name); !found || place.Text() != help.Text(name) || place.Subject() == "" {
			t.Errorf("%s leads to %+v", name, place)
		}
	}
	if _, found := help.Find("nothing-of-that"); found {
		t.Error("any word leads somewhere")
	}
	if text := (help.Place{Page: "fleet", Section: "no such section"}).Text(); text != "" {
		t.Errorf("a section that is not there: %q", text)
	}
}

// TestSection: a section ends where the next one begins.
func TestSection(t *testing.T) {
	place, _ := help.Find("jupyter")
	if text := place.Text(); !strings.HasPrefix(text, "## ssh, scp") || !strings.Contains(text, "8888") || strings.Count(text, "\n## ") != 0 {
		t.Errorf("got %s", text)
	}
}
