// Package reading checks that what nodes report has the shape that the API promises (wire.Hardware, wire.Cost, wire.AgentInfo). So a
// reader of a list of nodes never gets a value of a wrong type, a number that is too large, or the same key twice.
//
// What a muster agent sends fits. One pass over the JSON finds that out, and the text is kept byte for byte. Any other text is
// decoded, and encoded again from the members that fit; the others are named in a notice. The shapes are made from the types of
// package wire, so a field that is added there is known here.
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

// Shape says which members a JSON object has, and what their values may be. It never changes.
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
	null     bool // null is allowed, and means that the value is not known
	required bool // readers rely on it: it is never null and never absent
	signed   bool
	most     int      // how many bytes a text may have, or how many elements a list
	words    []string // the only texts that are allowed; nil: any
	usual    string   // the text that a missing one becomes
	shape    *Shape   // of an object, or of each row
	mark     mark
}

// mark says which part of a Summary a value becomes.
type mark int

const (
	markNone mark = iota
	markState
	markGPUs
	markExpected
	markUUID
	markHealth
)

// exception is what is known of a field beyond its Go type.
type exception struct {
	most   int
	words  []string
	usual  string
	always bool // a list that is never null
	signed bool
	mark   mark
}

// exceptions gives the exception of the field with this path.
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
	case "gpus.vendor":
		return exception{words: []string{wire.VendorNVIDIA, wire.VendorAMD}}
	case "xids.state":
		return exception{words: []string{wire.KernelRead, wire.KernelNotAvailable}, usual: wire.KernelNotAvailable}
	case "xids.events":
		return exception{most: wire.MaxXids, always: true}
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

// fieldOf makes a field of a member's Go type. It panics at a type that it does not know, so that a new one in package wire fails in
// every test.
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
