package help

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// word is what no line breaks: its text, with escapes, and the columns that it takes.
type word struct {
	text  string
	width int
}

// longestCode is how wide code with spaces in it may be and still be one word, so that a command stays in one piece.
const longestCode = 48

// span finds code, bold words and links.
var span = regexp.MustCompile("`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\[([^\\]]+)\\]\\(([^)]+)\\)")

// words gives a text's words.
func (r *renderer) words(text string) []word {
	var s sentence
	at := 0
	for _, found := range span.FindAllStringSubmatchIndex(text, -1) {
		s.plain(text[at:found[0]])
		at = found[1]
		switch {
		case found[2] >= 0:
			r.code(&s, text[found[2]:found[3]])
		case found[4] >= 0:
			r.bold(&s, text[found[4]:found[5]])
		default:
			s.plain(text[found[6]:found[7]] + " (" + text[found[8]:found[9]] + ")")
		}
	}
	s.plain(text[at:])
	return s.words
}

// code shows code: bold with style, else between its marks.
func (r *renderer) code(s *sentence, code string) {
	pieces := []string{code}
	if utf8.RuneCountInString(code) > min(longestCode, r.columns-2*literal) {
		pieces = strings.Split(code, " ")
	}
	if !r.style {
		pieces[0] = "`" + pieces[0]
		pieces[len(pieces)-1] += "`"
	}
	for i, piece := range pieces {
		s.open = s.open && i == 0
		s.add(r.strong(piece), piece)
	}
}

func (r *renderer) bold(s *sentence, text string) {
	for i, one := range strings.Fields(text) {
		s.open = s.open && i == 0
		s.add(r.strong(one), one)
	}
}

// sentence gathers words.
type sentence struct {
	words []word
	open  bool // the last word goes on
}

func (s *sentence) plain(text string) {
	for i, part := range strings.Split(text, " ") {
		s.open = s.open && i == 0
		if part != "" {
			s.add(part, part)
		}
	}
}

// add makes shown a word, or the rest of one; bare is the same without escapes.
func (s *sentence) add(shown, bare string) {
	if !s.open {
		s.words = append(s.words, word{})
	}
	last := &s.words[len(s.words)-1]
	last.text += shown
	last.width += utf8.RuneCountInString(bare)
	s.open = true
}

// fill puts words into lines of at most so many columns. A word that is wider has a line of its own.
func fill(words []word, columns int) []word {
	var lines []word
	for _, w := range words {
		last := len(lines) - 1
		if last < 0 || lines[last].width+1+w.width > columns {
			lines = append(lines, w)
			continue
		}
		lines[last].text += " " + w.text
		lines[last].width += 1 + w.width
	}
	return lines
}
