// Package reading holds what nodes report to the shape that the API promises (wire.Hardware, wire.Cost, wire.AgentInfo), so that
// whoever reads a list of nodes never meets a value of another type, a number that no reader can hold, or a key twice.
//
// What an agent sends fits, and is told so in the one pass that looks at its JSON anyway; it is kept byte for byte. Anything else
// is taken apart, put together again from what fits, and what was left out is named. The shapes come from the types of package
// wire: a field that is added there is known here.
package reading

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"muster/agent/wire"
)

// The shapes of what nodes report.
var (
	Hardware = shapeOf(reflect.TypeFor[wire.Hardware](), "")
	Cost     = shapeOf(reflect.TypeFor[wire.Cost](), "")
	Agent    = shapeOf(reflect.TypeFor[wire.AgentInfo](), "")
)

// Shape is what a JSON object is to look like. It never changes.
type Shape struct {
	fields []field
	of     reflect.Type
}

type kind int

const (
	text kind = iota
	whole
	decimal
	truth
	moment
	object // of a shape
	list   // of texts
	rows   // objects of a shape
)

// field is one member of an object.
type field struct {
	name     string
	kind     kind
	null     bool // null stands for not known
	required bool // a reader counts on it: neither null nor absent
	signed   bool
	most     int      // bytes of a text, or elements
	words    []string // the only texts; nil: any
	usual    string   // stands for a text that is missing
	shape    *Shape
	mark     mark
}

// mark is what a value means to a Summary.
type mark int

const (
	markNone mark = iota
	markState
	markGPUs
	markExpected
	markUUID
	markHealth
)

// exception is what the type of a field does not say.
type exception struct {
	most   int
	words  []string
	usual  string
	always bool // a list that is never null
	signed bool
	mark   mark
}

// exceptions by the path of the field.
func exceptions(path string) exception {
	switch path {
	case "probe.state":
		return exception{words: []string{wire.ProbeOK, wire.ProbeSlow, wire.ProbeHung, wire.ProbeFailed, wire.ProbeAbsent},
			usual: wire.ProbeFailed, mark: markState}
	case "gpus":
		return exception{most: wire.MaxGPUs, always: true, mark: markGPUs}
	case "gpus_expected":
		return exception{mark: markExpected}
	case "gpus.uuid":
		return exception{mark: markUUID}
	case "gpus.health":
		return exception{always: true, mark: markHealth}
	case "gpus.memory_source":
		return exception{words: []string{wire.MemoryDevice, wire.MemoryUnified}, usual: wire.MemoryDevice}
	}
	return exception{signed: strings.HasSuffix(path, "_celsius")}
}

func shapeOf(t reflect.Type, path string) *Shape {
	s := &Shape{of: t}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s.fields = append(s.fields, fieldOf(f.Type, name, path, strings.Contains(options, "omitempty")))
	}
	return s
}

func fieldOf(t reflect.Type, name, path string, optional bool) field {
	if path != "" {
		path += "."
	}
	path += name
	x := exceptions(path)
	f := field{name: name, most: wire.MaxText, words: x.words, usual: x.usual, signed: x.signed, mark: x.mark}
	f.null = t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && !x.always
	f.required = !f.null && !optional
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		f.kind = moment
	case t.Kind() == reflect.String:
		f.kind = text
	case t.Kind() == reflect.Bool:
		f.kind = truth
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		f.kind = whole
	case t.Kind() == reflect.Float64:
		f.kind = decimal
	case t.Kind() == reflect.Struct:
		f.kind = object
		f.shape = shapeOf(t, path)
	case t == reflect.TypeFor[[]string]():
		f.kind = list
		f.most = wire.MaxList
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		f.kind = rows
		f.most = wire.MaxList
		f.shape = shapeOf(t.Elem(), path)
	default:
		panic(fmt.Sprintf("reading: no shape for %s of %s", t, path))
	}
	if x.most > 0 {
		f.most = x.most
	}
	return f
}
