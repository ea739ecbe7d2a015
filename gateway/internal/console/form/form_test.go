package form_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/form"
)

// TestFields: an empty field is 0, and what cannot be read is refused by the field's name.
func TestFields(t *testing.T) {
	for text, want := range map[string]int{"": 0, "8": 8} {
		if n, err := form.Number("text", text); n != want || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for text, want := range map[string]time.Duration{"": 0, "30m": 30 * time.Minute, "7d": 7 * 24 * time.Hour} {
		if d, err := form.Duration("text", text); d != api.Duration(want) || err != nil {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"many", "-1", "1.5"} {
		if n, err := form.Number("text", text); err == nil {
			t.Errorf("%q became %d", text, n)
		}
	}
	for _, text := range []string{"long", "-1h", "1ms"} {
		if d, err := form.Duration("text", text); err == nil {
			t.Errorf("%q became %v", text, d)
		}
	}
	if got := form.Words(" a, b c,,"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("words %q", got)
	}
}

func TestLabels(t *testing.T) {
	got, err := form.Labels("tier=spot, -rack,-site")
	if err != nil || got.Set["tier"] != "spot" || !slices.Equal(got.Remove, []string{"rack", "site"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, text := range []string{"", " , ", "tier", "tier=spot,tier=on", "tier=spot, -tier", "-tier,-tier"} {
		if got, err := form.Labels(text); err == nil {
			t.Errorf("%q became %+v", text, got)
		}
	}
}

func FuzzPairs(f *testing.F) {
	for _, s := range []string{"a=b, c=d", "a", "=b", "a=\nb=", " , "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := form.Pairs(text)
		for name := range pairs {
			if name == "" || err != nil {
				t.Errorf("%q became %v, %v", text, pairs, err)
			}
		}
	})
}

func params() []wire.TaskParam {
	return []wire.TaskParam{{Name: "text", Kind: wire.ParamText}, {Name: "flag", Kind: wire.ParamFlag}, {Name: "number", Kind: wire.ParamInt},
		{Name: "list", Kind: wire.ParamList}, {Name: "map", Kind: wire.ParamMap}, {Name: "left", Kind: wire.ParamText}}
}

func TestParams(t *testing.T) {
	values := url.Values{"param.text": {" a b "}, "param.flag": {"true"}, "param.number": {"7"}, "param.list": {"x y\r\n\nz"},
		"param.map": {"a=b=c\r\nd="}, "param.left": {"  "}, "param.other": {"x"}}
	got, err := form.Params(params(), values)
	want := `{"flag":true,"list":["x y","z"],"map":{"a":"b=c","d":""},"number":7,"text":"a b"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := form.Params(params(), url.Values{"param.map": {"a=b\na=c"}}); err == nil {
		t.Errorf("a name twice became %s", got)
	}
	for name, text := range map[string]string{"param.number": "x", "param.map": "a"} {
		if got, err := form.Params(params(), url.Values{name: {text}}); err == nil {
			t.Errorf("%s=%s became %s", name, text, got)
		}
	}
}

// FuzzParams: what is taken is JSON, whatever stands in the fields.
func FuzzParams(f *testing.F) {
	f.Add("a", "7", "x\ny", "a=b")
	f.Fuzz(func(t *testing.T, text, number, list, pairs string) {
		got, err := form.Params(params(), url.Values{"param.text": {text}, "param.number": {number}, "param.list": {list}, "param.map": {pairs}})
		if err == nil && !json.Valid(got) {
			t.Errorf("got %s", got)
		}
	})
}
