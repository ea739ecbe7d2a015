// Package protocolpage reads the page muster help protocol, for tests that compare it with what the agent does.
package protocolpage

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// leastCodes is fewer codes than the page has. If the table were not found, a test of no codes would pass.
const leastCodes = 30

// Code is one row of the page's table of refusals.
type Code struct {
	Name      string
	Status    int
	Enrolling string // what an agent does about it while it enrols
	Enrolled  string // what it does about it as a node
}

// Words are the page's words in one line.
func Words(t testing.TB) string {
	t.Helper()
	return strings.Join(strings.Fields(read(t)), " ")
}

// Codes are the page's refusals.
func Codes(t testing.TB) (all []Code) {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9]{3}) \\| ([a-z -]+?) \\| ([a-z -]+?) \\|")
	for _, found := range row.FindAllStringSubmatch(read(t), -1) {
		status, err := strconv.Atoi(found[2])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Code{Name: found[1], Status: status, Enrolling: found[3], Enrolled: found[4]})
	}
	if len(all) < leastCodes {
		t.Fatalf("the page has %d codes", len(all))
	}
	return all
}

// read finds the page from wherever in the agent's tree the test runs.
func read(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for folder != filepath.Dir(folder) {
		page, err := os.ReadFile(filepath.Join(folder, "gateway/internal/cli/help/protocol.md"))
		if err == nil {
			return string(page)
		}
		folder = filepath.Dir(folder)
	}
	t.Fatal("gateway/internal/cli/help/protocol.md is not there")
	return ""
}
