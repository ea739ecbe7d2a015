package screen

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Pairs writes names with a text behind each, both made safe to show. An empty text means that the value is not known. The texts begin in
// one column. screen is the width of the screen in columns: a text that is too long for its line goes on below; 0: there is no screen.
func Pairs(w io.Writer, screen int, rows [][]string) {
	names := 0
	for _, row := range rows {
		if row[0] != "" {
			row[1] = OrUnknown(row[1])
		}
		row[0], row[1] = Printable(row[0]), Printable(row[1])
		names = max(names, Width(row[0]))
	}
	columns := 0
	if screen > 0 {
		columns = max(screen-names-gap, narrowest)
	}
	for _, row := range rows {
		name := row[0]
		for _, line := range wrapped(row[1], columns) {
			fmt.Fprintln(w, strings.TrimRight(name+strings.Repeat(" ", names-Width(name)+gap)+line, " "))
			name = ""
		}
	}
}

// Known leaves out the pairs whose text is not known.
func Known(rows [][]string) [][]string {
	return slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" || row[1] == Unknown })
}

// Indent sets a command off; it may have several lines.
func Indent(command string) string {
	lines := strings.Split(strings.TrimSpace(command), "\n")
	for i := range lines {
		lines[i] = "  " + Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Wrap breaks paragraphs into lines of at most columns characters. Between two paragraphs there is an empty line.
func Wrap(text string, columns int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i := range paragraphs {
		paragraphs[i] = strings.Join(wrapped(strings.Join(strings.Fields(paragraphs[i]), " "), columns), "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

// Fold breaks a line for a screen of this many columns, 0: there is no screen. The lines after the first are indented. It breaks behind a
// comma or the like if it can, so that a command within the text stays whole and can be pasted.
func Fold(line string, columns int, indent string) string {
	var out strings.Builder
	for columns > 0 && Width(line) > columns {
		head := prefix(line, columns)
		at := strings.LastIndex(strings.TrimRight(head, " "), " ")
		for i := len(head) - 1; i > len(head)/2; i-- {
			if line[i] == ' ' && strings.IndexByte(",;:.)", line[i-1]) >= 0 {
				at = i
				break
			}
		}
		if at <= len(indent) {
			break // a word that no line holds
		}
		out.WriteString(line[:at] + "\n")
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return out.String() + line
}

// wrapped breaks a text into lines of so many columns, at spaces where it can; 0: no limit.
func wrapped(text string, columns int) []string {
	if columns <= 0 || Width(text) <= columns {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		for Width(word) > columns { // a word that no line holds
			if line != "" {
				lines = append(lines, line)
				line = ""
			}
			head := prefix(word, columns)
			lines = append(lines, head)
			word = word[len(head):]
		}
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) > columns:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// prefix is as much of a text as so many columns hold, one character at least.
func prefix(s string, columns int) string {
	for i, r := range s {
		if columns -= Width(string(r)); columns < 0 && i > 0 {
			return s[:i]
		}
	}
	return s
}
