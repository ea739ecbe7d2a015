package reply_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/gateway/internal/reply"
)

const (
	top       = "../../../"
	codesFile = top + "agent/wire/errors.go"
	tableFile = "status.go"
)

// code is one constant of agent/wire/errors.go.
type code struct {
	name, value string
	said        string // the status that its comment names; "" none
}

// codes reads the constants from the source: what is declared there cannot be forgotten here.
func codes(t *testing.T) (all []code) {
	t.Helper()
	for _, d := range parse(t, codesFile).Decls {
		constants, ok := d.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			s := spec.(*ast.ValueSpec)
			if !strings.HasPrefix(s.Names[0].Name, "Code") {
				continue
			}
			value, err := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			said, _, _ := strings.Cut(strings.TrimSpace(s.Comment.Text()), ":")
			all = append(all, code{name: s.Names[0].Name, value: value, said: said})
		}
	}
	return all
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEveryCodeHasItsStatus: the table has a status for each code, the one that the comment beside the code gives.
func TestEveryCodeHasItsStatus(t *testing.T) {
	all := codes(t)
	if len(all) < 40 {
		t.Fatalf("%d codes were found in %s", len(all), codesFile)
	}
	seen := map[string]string{}
	for _, c := range all {
		if before, twice := seen[c.value]; twice {
			t.Errorf("%s and %s are the same code %q", before, c.name, c.value)
		}
		seen[c.value] = c.name
		got := reply.Status(c.value)
		if got == http.StatusInternalServerError && c.name != "CodeInternal" {
			t.Errorf("%s has no status in %s", c.name, tableFile)
		}
		if strconv.Itoa(got) != c.said {
			t.Errorf("%s is answered with %d, and its comment says %q", c.name, got, c.said)
		}
	}
	if got := reply.Status("a code that nobody made"); got != http.StatusInternalServerError {
		t.Errorf("an unknown code is answered with %d", got)
	}
}

// TestEveryCodeIsUsed: what nothing refuses with, and nothing reads, is no code. The table does not count, nor do tests.
func TestEveryCodeIsUsed(t *testing.T) {
	var used []string
	for _, tree := range []string{"agent", "gateway"} {
		used = append(used, usedCodes(t, top+tree)...)
	}
	for _, c := range codes(t) {
		if !slices.Contains(used, c.name) {
			t.Errorf("nothing uses %s", c.name)
		}
	}
}

// TestStatusKnowsCodesAlone: the table's cases are constants of the wire package, not texts.
func TestStatusKnowsCodesAlone(t *testing.T) {
	ast.Inspect(parse(t, tableFile), func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && !strings.Contains(text.Value, "/") {
			t.Errorf("%s has the text %s where a code of agent/wire belongs", tableFile, text.Value)
		}
		return true
	})
}

// usedCodes are the names of codes in a tree's own files.
func usedCodes(t *testing.T, tree string) (used []string) {
	t.Helper()
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if filepath.Base(path) == tableFile || path == codesFile {
			return nil
		}
		ast.Inspect(parse(t, path), func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok && strings.HasPrefix(name.Name, "Code") {
				used = append(used, name.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}
