package help

import (
	"regexp"
	"slices"
	"strings"
)

const gap = 2 // columns between two of a table

// bar finds what parts a row's cells; `\|` is a bar in a cell.
var bar = regexp.MustCompile(`(?:\\\||[^|])+`)

// cells gives a row's cells; nil for the line of dashes below the head.
func cells(row string) []string {
	var found []string
	for _, cell := range bar.FindAllString(strings.Trim(row, "| "), -1) {
		found = append(found, strings.TrimSpace(strings.ReplaceAll(cell, `\|`, "|")))
	}
	if strings.Trim(strings.Join(found, ""), "-: ") == "" {
		return nil
	}
	return found
}

// manyColumns is from how many columns on a table that is too wide becomes a list: its cells would be narrow towers of words.
const manyColumns = 5

// table writes the rows that are gathered, in columns. If they do not fit, the widest column gets narrower and its cells take
// several lines. If they do not fit even so, or there are many columns, a row's first cell stands above the others.
func (r *renderer) table(indent int) {
	rows := slices.DeleteFunc(r.rows, func(row []string) bool { return row == nil })
	var widths, least []int
	filled := make([][][]word, len(rows))
	for i, row := range rows {
		for j, cell := range row {
			words := r.words(cell)
			filled[i] = append(filled[i], words)
			if j == len(widths) {
				widths = append(widths, 0)
				least = append(least, 0)
			}
			for _, line := range fill(words, 1<<20) {
				widths[j] = max(widths[j], line.width)
			}
			for _, w := range words {
				least[j] = max(least[j], w.width)
			}
		}
	}
	if len(widths) >= manyColumns && total(widths) > r.columns-indent {
		r.list(rows, indent)
		return
	}
	fits := narrow(widths, least, r.columns-indent)
	for i, row := range filled {
		if !fits {
			r.stack(row, indent)
			continue
		}
		r.row(row, widths, indent, i == 0)
	}
}

// list writes each row as its first cell, and below it the others, each with the head of its column.
func (r *renderer) list(rows [][]string, indent int) {
	for _, row := range rows[1:] {
		var named []string
		for j, cell := range row[1:] {
			if j+1 < len(rows[0]) && cell != "" {
				cell = rows[0][j+1] + ": " + cell
			}
			named = append(named, cell)
		}
		r.stack([][]word{r.words(row[0]), r.words(strings.Join(named, "; "))}, indent)
	}
}

// total is how wide a table with columns of these widths is.
func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// stack writes a row's cells one below the other.
func (r *renderer) stack(row [][]word, indent int) {
	for j, words := range row {
		if j == 1 {
			indent += literal
		}
		for _, line := range fill(words, r.columns-indent) {
			r.write(strings.Repeat(" ", indent) + line.text)
		}
	}
}

// narrow takes columns from the widest cells until all fit; it gives up where a word would not fit.
func narrow(widths, least []int, columns int) bool {
	for {
		sum, widest := total(widths), -1
		for j, w := range widths {
			if w > least[j] && (widest < 0 || w > widths[widest]) {
				widest = j
			}
		}
		if sum <= columns || widest < 0 {
			return sum <= columns
		}
		widths[widest]--
	}
}

// row writes one row; the head is bold.
func (r *renderer) row(row [][]word, widths []int, indent int, head bool) {
	lines := make([][]word, len(row))
	height := 0
	for j, words := range row {
		lines[j] = fill(words, widths[j])
		height = max(height, len(lines[j]))
	}
	for i := range height {
		var out strings.Builder
		at := 0
		for j := range lines {
			if i < len(lines[j]) && lines[j][i].width > 0 {
				cell := lines[j][i]
				text := cell.text
				if head {
					text = r.strong(text)
				}
				out.WriteString(strings.Repeat(" ", indent-at) + text)
				at = indent + cell.width
			}
			indent += widths[j] + gap
		}
		r.write(out.String())
		for j := range lines {
			indent -= widths[j] + gap
		}
	}
}
