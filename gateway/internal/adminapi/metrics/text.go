package metrics

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/agent/wire"
)

// TextType is the media type of the text format.
const TextType = "text/plain; version=0.0.4; charset=utf-8"

// Kinds of a family.
const (
	gauge   = "gauge"
	counter = "counter"
)

// family is what all samples of one metric have in common.
type family struct {
	name string
	kind string
	help string
}

// figure is a metric, and how one of its subjects says it: the gateway, a node or a GPU. What is not known is left out.
type figure[S any] struct {
	family
	say func(*text, S)
}

const (
	mostLabel = 200      // bytes of a label's value
	piece     = 32 << 10 // bytes that are collected before they are sent
	lineSize  = 512      // bytes of a usual line
)

// text writes metrics in Prometheus's text format 0.0.4: for each family its help and type, then its samples. A family without samples
// is left out. It keeps no more than one piece in memory.
type text struct {
	to     *bufio.Writer
	family family
	headed bool
	line   []byte
	left   struct{ gpus, reasons, labels int } // out: beyond the bounds, with the labels of another one, or cut
}

func newText(to io.Writer) *text {
	return &text{to: bufio.NewWriterSize(to, piece), line: make([]byte, 0, lineSize)}
}

// begin begins a family.
func (t *text) begin(f family) {
	t.family = f
	t.headed = false
}

// label adds a label to the next sample.
func (t *text) label(name, value string) {
	separator := byte(',')
	if len(t.line) == 0 {
		t.line = append(t.line, t.family.name...)
		separator = '{'
	}
	t.line = append(t.line, separator)
	t.line = append(t.line, name...)
	t.line = append(t.line, `="`...)
	if len(value) > mostLabel {
		value = wire.Head(value, mostLabel)
		t.left.labels++
	}
	if !utf8.ValidString(value) {
		value = string([]rune(value)) // with bytes that are no UTF-8, Prometheus would refuse the whole answer
	}
	t.line = append(t.line, escaped.Replace(value)...)
	t.line = append(t.line, '"')
}

// escaped writes the text of a label.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// say adds labels, each a name and a text, and ends the sample.
func (t *text) say(v float64, labels ...string) {
	for i := 0; i < len(labels); i += 2 {
		t.label(labels[i], labels[i+1])
	}
	t.value(v)
}

// value ends a sample, whose labels were given before.
func (t *text) value(v float64) {
	if !t.headed {
		t.head()
	}
	if len(t.line) == 0 {
		t.line = append(t.line, t.family.name...)
	} else {
		t.line = append(t.line, '}')
	}
	t.line = append(t.line, ' ')
	t.line = strconv.AppendFloat(t.line, v, 'g', -1, 64)
	t.line = append(t.line, '\n')
	_, _ = t.to.Write(t.line) // the writer keeps its first error, and end returns it
	t.line = t.line[:0]
}

func (t *text) head() {
	t.headed = true
	f := t.family
	for _, part := range [...]string{"# HELP ", f.name, " ", f.help, "\n# TYPE ", f.name, " ", f.kind, "\n"} {
		_, _ = t.to.WriteString(part) // as in value
	}
}

// end sends the rest.
func (t *text) end() error { return t.to.Flush() }
