package gpu

import (
	"fmt"
	"strconv"
	"strings"

	"muster/agent/wire"
)

const maxRows = wire.MaxGPUs

// Table is an answer to --query-gpu with --format=csv,noheader, cut into cells.
type Table struct {
	Rows     [][]string // one for each GPU; each has as many cells as fields were asked for, without white space around them
	Rejected []Reject   // lines that begin like a row and cannot be read as one
	Notes    []string   // other lines: messages of nvidia-smi
}

// Reject is a line that looks like a GPU's row and cannot be read.
type Reject struct {
	Index string // its first cell
	Text  string // the line, fit for a screen
	Wrong string // what is wrong with it, and what it says
}

// ParseCSV cuts an answer to a query of width fields. nvidia-smi does not quote, so a comma in a value makes a row too wide. Then
// nobody can tell which value belongs to which field: the row is rejected.
func ParseCSV(text []byte, width int) Table {
	var t Table
	for n, line := range lines(text) {
		cells := strings.Split(line, ",")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case n >= maxRows:
			t.Notes = append(t.Notes, fmt.Sprintf("it printed more than %d lines", maxRows))
			return t
		case len(cells) == width:
			t.Rows = append(t.Rows, cells)
		case len(cells) == 1 || !startsRow(cells[0]):
			t.Notes = append(t.Notes, line)
		default:
			wrong := fmt.Sprintf("has %d values instead of %d", len(cells), width)
			t.Rejected = append(t.Rejected, reject(n, cells, wrong))
		}
	}
	return t
}

// reject describes line n, counted from 0, that was cut into cells.
func reject(n int, cells []string, wrong string) Reject {
	text := wire.Plain(strings.Join(cells, ", "), maxLine)
	return Reject{Index: cells[0], Text: text, Wrong: fmt.Sprintf("row %d of the answer %s: %s", n+1, wrong, text)}
}

// startsRow tells a row from a message with a comma in it: rows begin with an index.
func startsRow(cell string) bool {
	if _, kind := classify(cell); kind != present {
		return true
	}
	_, err := strconv.ParseUint(cell, 10, 16)
	return err == nil
}

// kind says what a cell is.
type kind int

const (
	present kind = iota
	absent       // the device has no such value, which is normal
	failed       // the device has such a value and could not give it
)

// classify tells a value from the words that nvidia-smi prints in place of one. It gives a failed cell without its brackets.
func classify(cell string) (string, kind) {
	cell = strings.TrimSpace(cell)
	switch strings.ToLower(cell) {
	case "", "n/a", "[n/a]", "not supported", "[not supported]", "[requested functionality has been deprecated]",
		"[function not found]":
		return "", absent
	case "err!":
		return "err", failed
	}
	if inner, ok := strings.CutPrefix(cell, "["); ok {
		return strings.TrimSpace(strings.TrimSuffix(inner, "]")), failed
	}
	return cell, present
}

// measure is a physical quantity. It knows the units that may stand behind a number, because nounits does not remove all of them,
// and the limit above which a number cannot be a measurement.
type measure int

const (
	percent measure = iota
	celsius
	watts
	mebibytes
	megahertz
	fanPercent
	count
)

// known is the largest figure that is taken for a measurement, and the units that may stand behind one, with what to multiply it by.
func (m measure) known() (limit float64, units map[string]float64) {
	switch m {
	case percent:
		return 100, map[string]float64{"%": 1}
	case celsius:
		return 200, map[string]float64{"C": 1}
	case watts:
		return 20_000, map[string]float64{"W": 1, "mW": 1e-3}
	case mebibytes:
		const most = 16 << 20 // 16 TiB
		return most, map[string]float64{"MiB": 1, "KiB": 1.0 / 1024, "GiB": 1024}
	case megahertz:
		return 100_000, map[string]float64{"MHz": 1}
	case fanPercent:
		return 200, map[string]float64{"%": 1} // some fans run faster than their rated speed
	}
	return 1 << 53, nil // a larger whole number does not survive JSON in a float64
}

// number reads a figure. It reports false for everything but a plain decimal number within the limit of its measure. Such a value
// is unknown, not 0.
func (m measure) number(text string) (float64, bool) {
	// Only digits and a dot pass, so no sign, exponent, "inf" or "nan" reaches ParseFloat.
	digits := len(text) - len(strings.TrimLeft(text, "0123456789."))
	value, err := strconv.ParseFloat(text[:digits], 64)
	limit, units := m.known()
	if unit := strings.TrimSpace(text[digits:]); unit != "" {
		value *= units[unit]
		if units[unit] == 0 {
			return 0, false
		}
	}
	return value, err == nil && value <= limit
}
