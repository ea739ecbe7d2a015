package help

import (
	"regexp"
	"strings"
)

const (
	margin  = 2 // columns before everything but headings
	literal = 4 // columns before a literal block, or more of them in a list
	fence   = "```"
)

// Render lays a page out in lines of at most columns characters; only literal blocks are never broken. With style, headings and code are
// bold by the terminal's escapes; without, the text is plain and code keeps its marks.
//
// It understands what the pages use: headings, paragraphs, lists of one level with blocks in them, tables, literal blocks in
// fences, code, bold words and links.
func Render(page string, columns int, style bool) string {
	r := &renderer{columns: columns, style: style}
	for line := range strings.Lines(page) {
		r.line(strings.TrimRight(line, " \n"))
	}
	r.flush()
	return strings.TrimRight(r.out.String(), "\n") + "\n"
}

type renderer struct {
	out     strings.Builder
	columns int
	style   bool

	paragraph string     // what is gathered of a paragraph or of a list's item
	marker    string     // of the item that begins with this paragraph
	hang      int        // columns by which the item hangs that is open; 0: none is
	rows      [][]string // what is gathered of a table
	fenced    bool
	strip     int // spaces before the fence, which its lines have too
}

// item finds what a list's item begins with.
var item = regexp.MustCompile(`^(-|[0-9]+\.) +`)

func (r *renderer) line(line string) {
	text := strings.TrimLeft(line, " ")
	spaces := len(line) - len(text)
	switch {
	case strings.HasPrefix(text, fence):
		r.flush()
		r.fenced = !r.fenced
		r.strip = spaces
	case r.fenced:
		r.literal(line)
	case text == "":
		r.flush()
		r.blank()
	case text[0] == '|':
		r.rows = append(r.rows, cells(text))
	case text[0] == '#':
		r.flush()
		r.hang = 0
		r.heading(strings.TrimLeft(text, "# "))
	case item.MatchString(text):
		r.flush()
		r.marker = strings.TrimRight(item.FindString(text), " ")
		r.paragraph = text[len(item.FindString(text)):]
		r.hang = len(r.marker) + 1
	default:
		if r.paragraph == "" && spaces == 0 {
			r.hang = 0
		}
		r.paragraph = strings.TrimLeft(r.paragraph+" "+text, " ")
	}
}

// flush writes what is gathered.
func (r *renderer) flush() {
	indent := margin + r.hang
	if len(r.rows) > 0 {
		r.table(indent)
		r.rows = nil
	}
	if r.paragraph == "" {
		return
	}
	lead := strings.Repeat(" ", indent)
	for i, line := range fill(r.words(r.paragraph), r.columns-indent) {
		if i == 0 && r.marker != "" {
			r.write(strings.Repeat(" ", margin) + r.marker + " " + line.text)
			continue
		}
		r.write(lead + line.text)
	}
	r.paragraph = ""
	r.marker = ""
}

func (r *renderer) heading(text string) {
	words := r.words(text)
	for _, line := range fill(words, r.columns) {
		r.write(r.strong(line.text))
	}
}

func (r *renderer) literal(line string) {
	if line == "" {
		r.blank()
		return
	}
	cut := min(r.strip, len(line)-len(strings.TrimLeft(line, " ")))
	r.write(strings.Repeat(" ", max(literal, margin+r.hang)) + line[cut:])
}

// blank leaves one line free.
func (r *renderer) blank() {
	if !strings.HasSuffix(r.out.String(), "\n\n") {
		r.out.WriteByte('\n')
	}
}

func (r *renderer) write(line string) {
	r.out.WriteString(line)
	r.out.WriteByte('\n')
}

// strong is ECMA-48's bold; the second sequence ends bold and nothing else.
func (r *renderer) strong(text string) string {
	if !r.style {
		return text
	}
	return "\x1b[1m" + text + "\x1b[22m"
}
