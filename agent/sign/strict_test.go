package sign_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
)

type inner struct {
	Deep string `json:"deep"`
}

type embedded struct {
	Shared string `json:"shared"`
	Plain  int
}

type document struct {
	embedded
	Name   string            `json:"name"`
	Number *int              `json:"number,omitempty"`
	Time   time.Time         `json:"time"`
	Labels map[string]string `json:"labels"`
	Inner  *inner            `json:"inner"`
	List   []inner           `json:"list"`
	Groups map[string]inner  `json:"groups"`
	Pair   [2]inner          `json:"pair"`
	Any    any               `json:"any"`
	Raw    json.RawMessage   `json:"raw"`
	Bytes  []byte            `json:"bytes"`
	Hidden string            `json:"-"`
	Bare   string
	secret string //lint:ignore U1000 unexported on purpose: it must not count as a known key
}

func TestDecodeStrictTakes(t *testing.T) {
	for _, text := range []string{
		`{}`, " {\n} \n", `{"name":"a","number":3,"time":"2026-05-04T12:00:00Z"}`, `{"number":null,"inner":null,"list":null}`,
		`{"labels":{"A":"1","a":"2","anything":"3"}}`, `{"inner":{"deep":"x"},"list":[{"deep":"y"},{"deep":"z"}]}`,
		`{"groups":{"g":{"deep":"x"}},"pair":[{"deep":"a"},{"deep":"b"}]}`, `{"any":{"a":{"A":[1,{"b":null}]}},"raw":{"x":[{"y":1}]}}`,
		`{"bytes":"AAAA","Bare":"x","shared":"s","Plain":1}`, `{"n\u0061me":"ü"}`, `{"name":"\ud83d\ude00 \u00E9\\ud800\n","labels":{"\uD83D\uDE00":"�\ufffd"}}`, `{"name":"\"}\\","raw":["\\",{"]\"":"{"}]}`,
		"{ \"number\" :\t-3 ,\r\n\"any\": [ 1.5e3 , true,null ] }",
	} {
		var got, want document
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := sign.DecodeStrict([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestDecodeStrictRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                "",
		"half a pair":            `{"name":"lat\udce9"}`,
		"half a pair in a list":  `{"any":["\\\ud83d\n"]}`,
		"half and another":       `{"raw":"\ud83d\u0041"}`,
		"two first halves":       `{"name":"\ud83d\ud83d\ude00"}`,
		"half a pair in a key":   `{"labels":{"\uDE00x":"1"}}`,
		"blank":                  "  ",
		"null":                   " null ",
		"other type":             `[]`,
		"other type of a field":  `{"name":1}`,
		"object for a string":    `{"name":{"a":1}}`,
		"unknown":                `{"x":1}`,
		"unknown within":         `{"inner":{"x":1}}`,
		"unknown in a list":      `{"list":[{"deep":"a"},{"x":1}]}`,
		"unknown in a map":       `{"groups":{"g":{"x":1}}}`,
		"unknown in an array":    `{"pair":[{"x":1}]}`,
		"duplicate":              `{"name":"a","name":"a"}`,
		"duplicate by an escape": `{"name":"a","n\u0061me":"b"}`,
		"duplicate after \\\"":   `{"name":"\"}","name":"b"}`,
		"duplicate after \\\\":   `{"name":"\\","name":"b"}`,
		"duplicate within":       `{"inner":{"deep":"a","deep":"b"}}`,
		"duplicate in a map":     `{"labels":{"a":"1","a":"2"}}`,
		"duplicate in any":       `{"any":{"a":1,"a":2}}`,
		"duplicate in raw":       `{"raw":{"a":[{"b":1,"b":2}]}}`,
		"duplicate embedded":     `{"shared":"a","shared":"b"}`,
		"case":                   `{"Name":"a"}`,
		"case beside":            `{"name":"a","NAME":"b"}`,
		"case by folding":        `{"la\u017fels":{}}`, // encoding/json takes the long s for an s
		"case of a bare field":   `{"bare":"a"}`,
		"embedded by its name":   `{"embedded":{"shared":"a"}}`,
		"hidden":                 `{"-":"a"}`,
		"hidden by its name":     `{"Hidden":"a"}`,
		"unexported":             `{"secret":"a"}`,
		"empty key":              `{"":"a"}`,
		"trailing value":         `{} {}`,
		"trailing brace":         `{}}`,
		"trailing text":          `{}x`,
		"trailing comma":         `{"name":"a",}`,
		"no comma":               `{"name":"a" "Bare":"b"}`,
		"cut":                    `{"name":"a"`,
		"cut in a key":           `{"na`,
		"cut in a list":          `{"list":[`,
		"wrong bracket":          `{"list":[}`,
		"number as key":          `{1:2}`,
		"comment":                `{/**/}`,
		"byte order mark":        "\ufeff{}",
		"not UTF-8":              "{\"name\":\"\xff\"}",
		"number too large":       `{"any":1e999}`,
		"number too large here":  `{"number":99999999999999999999}`,
		"number too large raw":   `{"raw":[1e999]}`,
		"bad time":               `{"time":"yesterday"}`,
		"deep lists":             `{"any":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		"deep raw":               `{"raw":` + strings.Repeat("[", 32) + "1" + strings.Repeat("]", 32) + `}`,
		"deep objects":           `{"any":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40) + `}`,
		"bottomless":             strings.Repeat("[", 1<<20),
	} {
		var got document
		if err := sign.DecodeStrict([]byte(text), &got); !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%s: error = %v, want ErrMalformed", name, err)
		}
	}
}

// TestDecodeOnce: keys that a newer peer adds are skipped. A text that could be understood in two ways is refused.
func TestDecodeOnce(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"name":"a"}`: true, `{"name":"a","of_a_later_version":{"x":[{"y":1}]}}`: true,
		`{"inner":{"deep":"x","new":1},"list":[{"new":1}]}`: true,
		`{"labels":{"A":"1","a":"2"},"raw":{"A":1,"a":2}}`:  true,
		`{"name":"a","name":"a"}`:                           false, `{"new":1,"new":1}`: false, `{"NAME":"a"}`: false,
		`{"name":"a","Name":"b"}`: false,
		`{"\u017fhared":"a"}`:     false, `{"bare":"a"}`: false, `{"inner":{"DEEP":"x"}}`: false, `{"raw":{"a":[{"b":1,"b":2}]}}`: false,
		`{"SHARED":"a"}`:        false,
		`{"new":{"x":1,"x":2}}`: false, `{"labels":{"a":"1","a":"2"}}`: false, `{"name":1}`: false, `null`: false, `{} {}`: false,
	} {
		var got, want document
		err := sign.DecodeOnce([]byte(text), &got)
		if ok != (err == nil) || !ok && !errors.Is(err, sign.ErrMalformed) {
			t.Errorf("%s: %v", text, err)
		}
		if ok && (json.Unmarshal([]byte(text), &want) != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func FuzzDecodeStrict(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"name":"a","NAME":"b"}`, `{"inner":{"deep":"x"},"list":[{}],"groups":{"a":{}},"pair":[{},{}]}`,
		`{"any":[[[{"a":1}]]],"raw":{}}`,
		`{"a":`, `[}`, `{"x" 1}`, `{"time":"2026-05-04T12:00:00Z","bytes":[1,2]}`, "{\"\xff\":1}", `{"list":{"deep":1}}`,
		`{"pair":[1,2,3]}`, `{"embedded":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want document
		err := sign.DecodeStrict(data, &got)
		if err != nil {
			if !errors.Is(err, sign.ErrMalformed) {
				t.Errorf("%q: error = %v", data, err)
			}
			return
		}
		if json.Unmarshal(data, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q was read as %+v", data, got)
		}
	})
}
