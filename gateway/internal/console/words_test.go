package console_test

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"muster/gateway/internal/console"
)

// FuzzSetPath: no value leaves its place in the path.
func FuzzSetPath(f *testing.F) {
	for _, s := range []string{"a", "../accounts", "a/b", "%2f", "", "?x", "#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var u url.URL
		console.SetPath(&u, "/api/v1/admin/nodes/{node}/series", func(string) string { return value })
		again, err := url.Parse(u.RequestURI())
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(again.EscapedPath(), "/")
		if len(parts) != 7 || parts[6] != "series" || again.RawQuery != "" {
			t.Errorf("%q became %s", value, u.RequestURI())
		}
	})
}

func TestTopicIn(t *testing.T) {
	for hint, want := range map[string]string{"see muster help joining.": "joining", "muster help not-joining": "not-joining",
		"muster help nothing": "", "read the help": "", "": ""} {
		if got := console.TopicIn(hint); got != want {
			t.Errorf("%q names %q", hint, got)
		}
	}
}

const (
	text  = 4.5 // least contrast of text (WCAG 2.2, AA)
	shape = 3.0 // of marks, borders of fields and the focus
)

// contrasts are the pairs of colours that the style sheet uses, with what each needs.
func contrasts() []struct {
	front, back string
	least       float64
} {
	type pair = struct {
		front, back string
		least       float64
	}
	var all []pair
	for _, back := range []string{"page", "surface", "raised"} {
		for _, front := range []string{"text", "muted", "accent", "good", "attention", "bad", "unknown"} {
			all = append(all, pair{front, back, text})
		}
		all = append(all, pair{"edge", back, shape})
	}
	for line := 'a'; line <= 'h'; line++ {
		all = append(all, pair{"plot-" + string(line), "surface", shape})
	}
	return append(all, pair{"on-fill", "fill", text}, pair{"on-fill", "danger-fill", text}, pair{"fill", "surface", shape},
		pair{"danger-fill", "surface", shape}, pair{"text", "flash", text})
}

// TestContrast reads the style sheet. Every colour stands once, for light and for dark; every pair is readable in both.
func TestContrast(t *testing.T) {
	css := ""
	for _, file := range []string{"console.css", "node.css"} { // the colours stand at the top of the first
		raw, err := os.ReadFile("assets/" + file)
		if err != nil {
			t.Fatal(err)
		}
		css += string(raw)
	}
	colours := map[string][2]string{}
	for _, found := range regexp.MustCompile(`--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);`).FindAllStringSubmatch(css, -1) {
		colours[found[1]] = [2]string{found[2], found[3]}
	}
	used := map[string]bool{"line": true} // it only parts what is apart already
	for _, pair := range contrasts() {
		for i, mode := range []string{"light", "dark"} {
			got := contrast(t, colours[pair.front][i], colours[pair.back][i])
			if got < pair.least {
				t.Errorf("%s: %s on %s has %.2f, needs %.1f", mode, pair.front, pair.back, got, pair.least)
			}
		}
		used[pair.front] = true
		used[pair.back] = true
	}
	for name := range colours {
		if !used[name] || !strings.Contains(css, "var(--"+name+")") {
			t.Errorf("the colour %s is in no pair, or not used", name)
		}
	}
	_, rest, _ := strings.Cut(css, "\n}\n")
	if found := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b`).FindString(rest); found != "" {
		t.Errorf("the colour %s stands outside of the block of colours", found)
	}
	for _, name := range regexp.MustCompile(`var\(--([a-z-]+)\)`).FindAllStringSubmatch(css, -1) {
		if !strings.Contains(css, "--"+name[1]+":") {
			t.Errorf("there is no --%s", name[1])
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	light, dark := luminance(t, a), luminance(t, b)
	if light < dark {
		light, dark = dark, light
	}
	return (light + 0.05) / (dark + 0.05)
}

// luminance is the relative luminance of WCAG 2.2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) != 7 {
		t.Fatalf("%q is no colour", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(fmt.Errorf("%q: %w", colour, err))
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}
