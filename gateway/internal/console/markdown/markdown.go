// Package markdown turns a page of help into HTML. It understands what the pages use: headings, paragraphs, lists of one level with blocks
// in them, tables, literal blocks in fences, code, bold words and links. All text is escaped: no page can bring tags of its own.
package markdown

import (
	"html"
	"html/template"
	"regexp"
	"strconv"
	"strings"
)

const fence = "```"

// HTML renders a page. linked gives the path that a piece of code leads to, or nothing; it may be nil.
func HTML(page string, linked func(code string) string) template.HTML {
	w := &writer{linked: linked}
	for line := range strings.Lines(page) {
		w.line(strings.TrimRight(line, " \r\n"))
	}
	if w.fenced {
		w.out.WriteString("</code></pre>\n")
	}
	w.flush()
	w.endList()
	return template.HTML(w.out.String())
}

type writer struct {
	out    strings.Builder
	linked func(string) string

	paragraph []string
	rows      [][]string
	list      string // ul or ol, while one is open
	fenced    bool
	strip     int // blanks before the fence, which its lines have too
}

var item = regexp.MustCompile(`^(-|[0-9]+\.) +`)

func (w *writer) line(line string) {
	text := strings.TrimLeft(line, " ")
	blanks := len(line) - len(text)
	switch {
	case strings.HasPrefix(text, fence):
		w.fence(blanks)
	case w.fenced:
		w.out.WriteString(html.EscapeString(line[min(w.strip, blanks):]) + "\n")
	case text == "":
		w.flush()
	case text[0] == '|':
		w.row(text)
	case text[0] == '#':
		w.heading(text)
	case item.MatchString(text):
		w.item(text)
	default:
		if blanks == 0 && len(w.paragraph) == 0 && len(w.rows) == 0 {
			w.endList()
		}
		w.paragraph = append(w.paragraph, text)
	}
}

func (w *writer) fence(blanks int) {
	if w.fenced {
		w.out.WriteString("</code></pre>\n")
	} else {
		w.flush()
		if blanks == 0 {
			w.endList()
		}
		w.out.WriteString("<pre><code>")
	}
	w.fenced = !w.fenced
	w.strip = blanks
}

func (w *writer) heading(text string) {
	w.flush()
	w.endList()
	level := min(len(text)-len(strings.TrimLeft(text, "#")), 4)
	tag := "h" + strconv.Itoa(level)
	w.out.WriteString("<" + tag + ">" + w.inline(strings.TrimLeft(text, "# ")) + "</" + tag + ">\n")
}

func (w *writer) item(text string) {
	w.flush()
	marker := item.FindString(text)
	kind := "ol"
	if marker[0] == '-' {
		kind = "ul"
	}
	if w.list != kind {
		w.endList()
		w.out.WriteString("<" + kind + ">\n")
		w.list = kind
	} else {
		w.out.WriteString("</li>\n")
	}
	w.out.WriteString("<li>")
	w.paragraph = append(w.paragraph, text[len(marker):])
}

func (w *writer) endList() {
	if w.list != "" {
		w.out.WriteString("</li>\n</" + w.list + ">\n")
		w.list = ""
	}
}

// flush writes what is gathered of a paragraph or of a table.
func (w *writer) flush() {
	if len(w.paragraph) > 0 {
		w.out.WriteString("<p>" + w.inline(strings.Join(w.paragraph, " ")) + "</p>\n")
		w.paragraph = nil
	}
	if len(w.rows) > 0 {
		w.table()
		w.rows = nil
	}
}

var bar = regexp.MustCompile(`(?:\\\||[^|])+`)

// row gathers a row of a table. The line of dashes below the head is left out.
func (w *writer) row(text string) {
	if len(w.paragraph) > 0 {
		w.flush()
	}
	var cells []string
	for _, cell := range bar.FindAllString(strings.Trim(text, "| "), -1) {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, `\|`, "|")))
	}
	if strings.Trim(strings.Join(cells, ""), "-: ") != "" {
		w.rows = append(w.rows, cells)
	}
}

func (w *writer) table() {
	w.out.WriteString("<div class=\"scroll\"><table>\n")
	for i, cells := range w.rows {
		tag := "td"
		if i == 0 {
			tag = "th"
		}
		w.out.WriteString("<tr>")
		for _, cell := range cells {
			w.out.WriteString("<" + tag + ">" + w.inline(cell) + "</" + tag + ">")
		}
		w.out.WriteString("</tr>\n")
	}
	w.out.WriteString("</table></div>\n")
}

var (
	span = regexp.MustCompile("`([^`]+)`")
	bold = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	link = regexp.MustCompile(`\[([^\]]+)\]\((https://[^)\s]+)\)`)
)

// inline writes code first: within it nothing else has a meaning.
func (w *writer) inline(text string) string {
	var out strings.Builder
	at := 0
	for _, found := range span.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(words(text[at:found[0]]))
		out.WriteString(w.code(text[found[2]:found[3]]))
		at = found[1]
	}
	out.WriteString(words(text[at:]))
	return out.String()
}

func (w *writer) code(code string) string {
	text := "<code>" + html.EscapeString(code) + "</code>"
	if w.linked == nil {
		return text
	}
	if path := w.linked(code); path != "" {
		return `<a href="` + html.EscapeString(path) + `">` + text + "</a>"
	}
	return text
}

// words writes text without code. It is escaped first, and what is put around it holds no other text.
func words(text string) string {
	text = html.EscapeString(text)
	text = bold.ReplaceAllString(text, "<strong>$1</strong>")
	return link.ReplaceAllString(text, `<a href="$2" rel="noreferrer">$1</a>`)
}
