package help_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestProtocolSessionTypes: every type of session has a row with all its params, and there are no others.
func TestProtocolSessionTypes(t *testing.T) {
	_, table, _ := strings.Cut(readPage(t).text, "| type | params beside `idle_seconds`")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(session[.a-z]+)` \\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		rows[m[1]] = m[2]
	}
	for _, kind := range wire.SessionTypes() {
		row, there := rows[kind.Name]
		if !there {
			t.Errorf("the page does not list %s", kind.Name)
		}
		delete(rows, kind.Name)
		params := reflect.TypeOf(kind.New()).Elem()
		for i := range params.NumField() {
			name, _, _ := strings.Cut(params.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(row, "`"+name+"`") {
				t.Errorf("the row of %s does not name %s", kind.Name, name)
			}
		}
	}
	for name := range rows {
		t.Errorf("the page lists the type %s, which there is not", name)
	}
}

// TestProtocolFrames: every kind of frame has a row, and there are no others.
func TestProtocolFrames(t *testing.T) {
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z])` \\| ").FindAllStringSubmatch(readPage(t).text, -1) {
		rows[m[1]] = true
	}
	file := must(parser.ParseFile(token.NewFileSet(), "../../../../agent/pipe/frame.go", nil, 0))
	kinds := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Frame") {
			return true
		}
		kinds++
		letter := strings.Trim(spec.Values[0].(*ast.BasicLit).Value, "'")
		if !rows[letter] {
			t.Errorf("the page does not list %s, %s", spec.Names[0].Name, letter)
		}
		delete(rows, letter)
		return true
	})
	if kinds < 5 {
		t.Errorf("%d kinds of frames: the test keeps nothing", kinds)
	}
	for letter := range rows {
		t.Errorf("the page lists the frame %s, which there is not", letter)
	}
}

// TestProtocolPiece: the page says what a piece looks like, how it is asked for, and what answers it.
func TestProtocolPiece(t *testing.T) {
	text := readPage(t).text
	taken := must(json.Marshal(pipe.Taken{Next: 1200}))
	for _, want := range []string{
		"`" + pipe.Kind + "`",
		"`POST " + wire.SessionChannelPath("{session}", "{channel}") + "?" + pipe.Query{At: 1000}.Encode() + "`",
		"`GET " + wire.SessionChannelPath("{session}", "{channel}") + "?" + pipe.Query{At: 2000, Wait: 20 * time.Second}.Encode() + "`",
		"`" + string(taken) + "`",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	if body := (pipe.Piece{Data: []byte("x"), End: true}).Body(); body[0] != 1 || body[1] != 'x' {
		t.Errorf("the body of a piece is %q", body)
	}
}
