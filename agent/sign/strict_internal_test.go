package sign

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type mixed struct {
	Name   string                `json:"name"`
	Float  float64               `json:"float"`
	Digits json.Number           `json:"digits"`
	Time   time.Time             `json:"time"`
	Labels map[string]string     `json:"labels"`
	Groups map[string]mixedInner `json:"groups"`
	Pair   [2]mixedInner         `json:"pair"`
	Any    any                   `json:"any"`
	Raw    json.RawMessage       `json:"raw"`
	Bytes  []byte                `json:"bytes"`
	Self   *mixed                `json:"self"`
}

type mixedInner struct {
	Deep string `json:"deep"`
}

// FuzzWalker compares the walker with json.Decoder's tokens.
func FuzzWalker(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `"x"`, `12`, `{"name":"a","NAME":"b"}`, `{"groups":{"a":{}},"pair":[{"deep":"x"},{}]}`, `{"a":`, `[}`, `{"x" 1}`,
		`{"any":[[[{"a":1}]]],"raw":{"x":[1e999,-0,1.5E+3]},"later":{"A":1,"a":[true,false,null]}}`, " {\n\t} \r\n", `{"name":"a",}`,
		`{"time":"2026-05-04T12:00:00Z","bytes":[1,2]}`, `{"n\u0061me":"\ud800\\\"","\ud800":1,"\ufffd":2}`, `{"pair":[{},]}`,
		`{"self":{"self":{"labels":{"A":"1","a":"2"}}}}`, `{"digits":1e400,"float":1e400}`, `{"":1,"":2}`, `{"label\u017f":{}}`,
		strings.Repeat("[", maxDepth) + "1" + strings.Repeat("]", maxDepth),
		strings.Repeat("[", maxDepth+1) + "1" + strings.Repeat("]", maxDepth+1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, newer := range []bool{false, true} {
			sameVerdict(t, data, newer, new(mixed), new(mixed))
			sameVerdict(t, data, newer, new(any), new(any))
			sameVerdict(t, data, newer, new(map[string][]mixedInner), new(map[string][]mixedInner))
		}
	})
}

func sameVerdict(t *testing.T, data []byte, newer bool, got, want any) {
	err := decodeStrict(data, got, newer)
	slow := decodeByTokens(data, want, newer)
	if (err == nil) != (slow == nil) {
		t.Fatalf("%T from %q: %v, by tokens: %v", got, data, err, slow)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%T from %q: %+v, by tokens: %+v", got, data, got, want)
	}
}

// errRefused is every refusal of decodeByTokens.
var errRefused = errors.New("refused")

// decodeByTokens is decodeStrict with json.Decoder's tokens.
func decodeByTokens(data []byte, v any, newer bool) error {
	if !utf8.Valid(data) || bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return errRefused
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := valueByTokens(d, reflect.TypeOf(v), newer, 0); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errRefused
	}
	return json.Unmarshal(data, v)
}

func valueByTokens(d *json.Decoder, t reflect.Type, newer bool, depth int) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, err := d.Token()
	if err != nil || depth > maxDepth {
		return errRefused
	}
	switch token {
	case json.Delim('['):
		for d.More() {
			if err := valueByTokens(d, element(t), newer, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := membersByTokens(d, t, newer, depth); err != nil {
			return err
		}
	default:
		return nil
	}
	_, err = d.Token()
	return err
}

func membersByTokens(d *json.Decoder, t reflect.Type, newer bool, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return errRefused
		}
		inner, known := member(t, key)
		if seen[key] || !known && (!newer || variant(t, key)) {
			return errRefused
		}
		seen[key] = true
		if err := valueByTokens(d, inner, newer, depth+1); err != nil {
			return err
		}
	}
	return nil
}
