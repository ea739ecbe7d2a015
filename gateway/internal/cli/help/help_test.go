package help_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"muster/gateway/internal/cli/help"
)

// TestPages: every page is listed, every listed page is there, and its first line says its name and what it is about.
func TestPages(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, page := strings.CutSuffix(file.Name(), ".md")
		if page && !slices.Contains(help.Names(), name) {
			t.Errorf("%s is in no list of help.go", file.Name())
		}
	}
	for _, topic := range help.Topics() {
		text := help.Text(topic.Name)
		if !strings.HasPrefix(text, "# "+topic.Name+": "+topic.Summary+"\n") || topic.Summary == "" {
			t.Errorf("%s.md begins with %.60q: want \"# %s: what it is about\"", topic.Name, text, topic.Name)
		}
		if len("  "+topic.Name+topic.Summary) > 76 || strings.HasSuffix(topic.Summary, ".") {
			t.Errorf("%s: the summary %q is too long for a list, or ends with a full stop", topic.Name, topic.Summary)
		}
		if strings.Count(text, "\n") < 10 {
			t.Errorf("%s says next to nothing", topic.Name)
		}
	}
	if help.Text("nothing") != "" || help.Text("../help") != "" {
		t.Error("there is a page that is not listed")
	}
}

// TestPageWidth: a page is as wide as it was asked to be, whatever the width; only literal blocks may be wider.
func TestPageWidth(t *testing.T) {
	escapes := regexp.MustCompile("\x1b\\[[0-9]*m")
	for _, name := range help.Names() {
		page := help.Text(name)
		literal := literals(page)
		for _, columns := range []int{60, 80, 100} {
			plain := help.Render(page, columns, false)
			for line := range strings.Lines(plain) {
				line = strings.TrimSuffix(line, "\n")
				if utf8.RuneCountInString(line) > columns && !literal[strings.TrimLeft(line, " ")] &&
					strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("%s at %d columns: %q", name, columns, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("%s at %d columns ends a line with spaces: %q", name, columns, line)
				}
			}
			if lost := missing(help.Render(page, 1000, false), plain+listed(page)); lost != "" {
				t.Errorf("%s at %d columns does not have %q, which it has at 1000", name, columns, lost)
			}
			styled := help.Render(page, columns, true)
			if !escapes.MatchString(styled) || words(escapes.ReplaceAllString(styled, "")) != words(plain) {
				t.Errorf("%s at %d columns has other words with style", name, columns)
			}
		}
		if strings.IndexFunc(page, func(r rune) bool { return r != '\n' && (r > unicode.MaxASCII || r < ' ') }) >= 0 {
			t.Errorf("%s has characters that not every terminal shows", name)
		}
	}
}

// TestTaskPages: the lines to copy of the pages that go through a task fit on a screen of 80 columns.
func TestTaskPages(t *testing.T) {
	const most = 78 // they are indented
	for _, name := range []string{"quickstart", "first-job", "colleague", "phone", "nginx", "restore"} {
		for line := range literals(help.Text(name)) {
			if len(line) > most {
				t.Errorf("%s has %d columns: %s", name, len(line), line)
			}
		}
	}
}

// words are a text's letters and digits without what a layout changes: lines, order in tables, marks of code.
func words(text string) string {
	letters := []rune(text)
	letters = slices.DeleteFunc(letters, func(r rune) bool { return unicode.IsSpace(r) || r == '`' })
	slices.Sort(letters)
	return string(letters)
}

// missing is a word that a wide layout has more often than a narrow one. The narrow one may have more: a table that becomes a list
// says the heads of its columns in each row.
func missing(wide, narrow string) string {
	count := map[string]int{}
	for _, word := range strings.FieldsFunc(narrow, parts) {
		count[word]++
	}
	for _, word := range strings.FieldsFunc(wide, parts) {
		if count[word]--; count[word] < 0 {
			return word
		}
	}
	return ""
}

// parts says what stands between two words, with the marks of code, which a line's end may move.
func parts(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("`;:", r) }

// listed are the heads of the first columns of tables that may become a list: such a list does not say them.
func listed(page string) (heads string) {
	for row := range strings.Lines(page) {
		if cells := strings.Split(row, " | "); strings.HasPrefix(row, "| ") && len(cells) >= 5 {
			heads += "\n" + strings.TrimPrefix(cells[0], "| ")
		}
	}
	return heads
}

// literals are the lines between fences.
func literals(page string) map[string]bool {
	lines := map[string]bool{}
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inside = !inside
		} else if inside {
			lines[line] = true
		}
	}
	return lines
}
