package picture_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/console/picture"
)

// told is a GPU that says everything there is to say.
func told() wire.GPU {
	var g wire.GPU
	tell(reflect.ValueOf(&g).Elem())
	return g
}

// tell gives a value to v, and to all that v has inside.
func tell(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		tell(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		tell(v.Index(0))
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = time.Unix(2, 0)
			return
		}
		for i := range v.NumField() {
			tell(v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(33)
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
	default:
		panic("a GPU has a " + v.Kind().String())
	}
}

// sheet gives the rows by their names.
func sheet(gpus ...wire.GPU) map[string][]string {
	rows := map[string][]string{}
	for _, row := range picture.SheetOf(gpus) {
		rows[row.Name] = row.Values
	}
	return rows
}

// TestSheet: every row of the sheet is told by some GPU, and none by a GPU that says nothing.
func TestSheet(t *testing.T) {
	all := sheet(told())
	for _, name := range picture.SheetNames() {
		if len(all[name]) != 1 {
			t.Errorf("no GPU says %q", name)
		}
	}
	if mute := sheet(wire.GPU{UUID: "GPU-0"}); len(mute) != 1 {
		t.Errorf("a GPU that says nothing but its UUID has %v", mute)
	}
	if mixed := sheet(wire.GPU{}, told())["Fan"]; !slices.Equal(mixed, []string{"–", "33 %"}) {
		t.Errorf("got %v", mixed)
	}
}
