package metrics

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// sample is one line of an answer, read again.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	sampleLine = regexp.MustCompile(`^([a-z_:][a-z0-9_:]*)(\{(.*)\})? (\S+)$`)
	labelPart  = regexp.MustCompile(`^([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|$)`)
)

// read reads an answer strictly: each family begins with its help and its type, has samples, and comes once; no two samples are the same.
func read(t testing.TB, answer string) []sample {
	t.Helper()
	if !utf8.ValidString(answer) || answer != "" && !strings.HasSuffix(answer, "\n") {
		t.Fatalf("no UTF-8, or no end of the last line: %q", answer)
	}
	var all []sample
	var family, helped string
	lines := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	seen := map[string]bool{}
	empty := false
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			if helped = words[2]; seen[helped] || empty {
				t.Errorf("%s comes twice, or the family before it is empty", helped)
			}
			seen[helped] = true
		case strings.HasPrefix(line, "# TYPE "):
			family = words[2]
			empty = true
			if family != helped || words[3] != gauge && words[3] != counter {
				t.Errorf("%q follows the help of %s", line, helped)
			}
		case line != "":
			s := readSample(t, line)
			if key := fmt.Sprint(s.name, s.labels); s.name != family || seen[key] {
				t.Errorf("%q is in the family %s, or it is there twice", line, family)
			} else {
				seen[key] = true
			}
			empty = false
			all = append(all, s)
		}
	}
	return all
}

func readSample(t testing.TB, line string) sample {
	t.Helper()
	found := sampleLine.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("%q is no sample", line)
	}
	value, err := strconv.ParseFloat(found[4], 64)
	if err != nil {
		t.Fatal(err)
	}
	s := sample{name: found[1], labels: map[string]string{}, value: value}
	for rest := found[3]; rest != ""; {
		label := labelPart.FindStringSubmatch(rest)
		if label == nil {
			t.Fatalf("%q has a broken label at %q", line, rest)
		}
		if _, twice := s.labels[label[1]]; twice {
			t.Errorf("%q has a label twice", line)
		}
		s.labels[label[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(label[2])
		rest = rest[len(label[0]):]
	}
	return s
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	w := newText(&out)
	w.begin(family{"a_total", counter, "First."})
	w.value(3)
	w.begin(family{"empty", gauge, "Nobody has it."})
	w.begin(family{"b", gauge, "Second."})
	w.label("x", "back\\slash \"quoted\"\nnext")
	w.label("y", "")
	w.value(0.57)
	w.label("x", "broken \xff\xfe")
	w.value(1.5e12)
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	want := "# HELP a_total First.\n# TYPE a_total counter\na_total 3\n# HELP b Second.\n# TYPE b gauge\n" +
		`b{x="back\\slash \"quoted\"\nnext",y=""} 0.57` + "\n" + `b{x="broken ` + "\uFFFD\uFFFD" + `"} 1.5e+12` + "\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	read(t, out.String())
}

// TestLongLabel: a text is cut between two letters, and counted.
func TestLongLabel(t *testing.T) {
	var out bytes.Buffer
	w := newText(&out)
	w.begin(family{"a", gauge, "A."})
	w.label("x", strings.Repeat("ä", mostLabel))
	w.value(1)
	w.label("x", strings.Repeat("b", mostLabel))
	w.value(1)
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	all := read(t, out.String())
	if len(all) != 2 || all[0].labels["x"] != strings.Repeat("ä", mostLabel/2) || len(all[1].labels["x"]) != mostLabel || w.left.labels != 1 {
		t.Errorf("got %v, and %d were cut", all, w.left.labels)
	}
}

// TestBrokenLine: an error of the connection is told at the end.
func TestBrokenLine(t *testing.T) {
	w := newText(&broken{left: piece})
	w.begin(family{"a", gauge, "A."})
	for range piece {
		w.value(1)
	}
	if w.end() == nil {
		t.Error("no error")
	}
}

// FuzzLabel: whatever a node says, the answer stays one that a strict reader takes, and says the same.
func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", "a", "\"", "\\", "\n", `\n`, "\xff", "}", "ä\x80", strings.Repeat("ö", 150)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var out bytes.Buffer
		w := newText(&out)
		w.begin(family{"a", gauge, "A."})
		w.label("x", value)
		w.label("y", "z")
		w.value(1)
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		all := read(t, out.String())
		got := all[0].labels["x"]
		if utf8.ValidString(value) && len(value) <= mostLabel && got != value || len(got) > 3*mostLabel || all[0].labels["y"] != "z" {
			t.Errorf("%q became %q", value, got)
		}
	})
}
