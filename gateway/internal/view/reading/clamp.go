package reading

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/agent/wire"
)

// mostNumber bounds numbers. A reader that keeps numbers as float64, such as JavaScript, holds them exactly, and JSON can hold sums of
// them.
const mostNumber = 1e15

// field says what the values of one member of an object may be.
type field struct {
	name   string
	signed bool     // a number may be below zero
	always bool     // a list is never nil
	most   int      // elements of a list
	long   int      // bytes of a text
	words  []string // the only texts that are allowed; nil: any
	usual  string   // the text that an empty one becomes
	inner  []field  // of an object, or of each object of a list
}

// The fields of what nodes report.
var (
	hardwareFields = fieldsOf(reflect.TypeFor[wire.Hardware](), "")
	costFields     = fieldsOf(reflect.TypeFor[wire.Cost](), "")
	agentFields    = fieldsOf(reflect.TypeFor[wire.AgentInfo](), "")
)

// planOf gives the fields of a part of a request.
func planOf(v any) []field {
	switch v.(type) {
	case *wire.Hardware:
		return hardwareFields
	case *wire.Cost:
		return costFields
	}
	return agentFields
}

// fieldsOf gives the fields of a type. The path is that of the object with its dot; empty: it is the whole.
func fieldsOf(t reflect.Type, path string) (fields []field) {
	for i := range t.NumField() {
		of := t.Field(i).Type
		name := nameOf(t.Field(i))
		f := ruleOf(path + name)
		f.name = name
		if f.long = wire.MaxText; path == "gpus.processes.list." {
			f.long = wire.MaxProcessText
		}
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && of != reflect.TypeFor[time.Time]() {
			f.inner = fieldsOf(of, path+name+".")
		}
		fields = append(fields, f)
	}
	return fields
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// ruleOf is what is known of the field with this path beyond its Go type.
func ruleOf(path string) field {
	switch path {
	case "probe.state":
		return field{words: []string{wire.ProbeOK, wire.ProbeSlow, wire.ProbeHung, wire.ProbeFailed, wire.ProbeAbsent}, usual: wire.ProbeFailed}
	case "gpus":
		return field{most: wire.MaxGPUs, always: true}
	case "gpus.health":
		return field{most: wire.MaxList, always: true}
	case "gpus.memory_source":
		return field{words: []string{wire.MemoryDevice, wire.MemoryUnified}, usual: wire.MemoryDevice}
	case "gpus.processes.list":
		return field{most: wire.MostProcesses}
	case "gpus.vendor":
		return field{words: []string{wire.VendorNVIDIA, wire.VendorAMD}}
	case "runs":
		return field{most: wire.MaxRuns}
	case "runs.state":
		return field{words: wire.RunStates()}
	case "xids.state":
		return field{words: []string{wire.KernelRead, wire.KernelNotAvailable}, usual: wire.KernelNotAvailable}
	case "xids.events":
		return field{most: wire.MaxXids, always: true}
	}
	return field{most: wire.MaxList, signed: strings.HasSuffix(path, "_celsius")}
}

// object takes out of an object what does not fit, and fills in what readers rely on.
func (c *clamp) object(fields []field, v reflect.Value) {
	here := len(c.path)
	for i := range fields {
		f := &fields[i]
		value := v.Field(i)
		c.member(f.name)
		if !c.value(f, value) {
			c.leave()
			value.SetZero()
		}
		c.path = c.path[:here]
		switch {
		case f.usual != "" && value.IsZero():
			value.SetString(f.usual)
		case f.always && value.IsNil():
			value.Set(reflect.MakeSlice(value.Type(), 0, 0))
		}
	}
}

// value is false if a value does not fit. Of a list or an object, it takes out the parts that do not fit.
func (c *clamp) value(f *field, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || c.value(f, v.Elem())
	case reflect.String:
		s := v.String()
		return len(s) <= f.long && !strings.ContainsFunc(s, unreadable) && (s == "" || f.words == nil || slices.Contains(f.words, s))
	case reflect.Int, reflect.Int64:
		n := v.Int()
		return n < mostNumber && n > -mostNumber && (n >= 0 || f.signed)
	case reflect.Float64:
		n := v.Float()
		return math.Abs(n) < mostNumber && (n >= 0 || f.signed)
	case reflect.Slice:
		c.list(f, v)
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = at.UTC()
			_, err := at.MarshalJSON() // in UTC the year may have more than four digits
			return err == nil
		}
		c.object(f.inner, v)
	}
	return true
}

// list takes out elements beyond the bound, those that say nothing, and those that do not fit.
func (c *clamp) list(f *field, v reflect.Value) {
	here := len(c.path)
	if v.Len() > f.most {
		c.path = fmt.Appendf(c.path, " from %d on", f.most)
		c.leave()
		c.path = c.path[:here]
		v.SetLen(f.most)
	}
	kept := 0
	for i := range v.Len() {
		element := v.Index(i)
		fits := !element.IsZero()
		c.element(i)
		if fits && f.inner != nil {
			c.object(f.inner, element)
			fits = !element.IsZero() // what it said did not fit
		} else if fits {
			fits = c.value(f, element)
		}
		if !fits {
			c.leave()
		} else {
			v.Index(kept).Set(element)
			kept++
		}
		c.path = c.path[:here]
	}
	if v.Len() > 0 { // a nil list stays nil: it is not known
		v.SetLen(kept)
	}
	if rows, ok := v.Addr().Interface().(*[]wire.GPU); ok {
		number(*rows)
	}
}

// number gives a row without an index its place in the list. Only one row can have the index 0.
func number(rows []wire.GPU) {
	isFirst := true
	for i := range rows {
		if rows[i].Index == 0 && !isFirst {
			rows[i].Index = i
		}
		isFirst = isFirst && rows[i].Index != 0
	}
}

// unreadable is true for control characters, and for the replacement character: encoding/json gives that for half of a surrogate pair.
func unreadable(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }
