package markdown_test

import (
	"regexp"
	"strings"
	"testing"

	"muster/gateway/internal/console/markdown"
)

func TestHTML(t *testing.T) {
	for page, want := range map[string]string{
		"# a: b\n\ntwo\nlines\n":                     "<h1>a: b</h1>\n<p>two lines</p>\n",
		"## c\n":                                     "<h2>c</h2>\n",
		"- one\n- two\n  more\n\nafter\n":            "<ul>\n<li><p>one</p>\n</li>\n<li><p>two more</p>\n</li>\n</ul>\n<p>after</p>\n",
		"1. one\n\n   ```sh\n   x\n   ```\n2. two\n": "<ol>\n<li><p>one</p>\n<pre><code>x\n</code></pre>\n</li>\n<li><p>two</p>\n</li>\n</ol>\n",
		"- a\n1. b\n":                                "<ul>\n<li><p>a</p>\n</li>\n</ul>\n<ol>\n<li><p>b</p>\n</li>\n</ol>\n",
		"```\n<b> & **x**\n```\n":                    "<pre><code>&lt;b&gt; &amp; **x**\n</code></pre>\n",
		"```\nno end":                                "<pre><code>no end\n</code></pre>\n",
		"| a | b |\n| --- | --- |\n| 1 | `x\\|y` |\n": "<div class=\"scroll\"><table>\n" +
			"<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td><code>x|y</code></td></tr>\n</table></div>\n",
		"**bold** `**code**` <i>":                     "<p><strong>bold</strong> <code>**code**</code> &lt;i&gt;</p>\n",
		"[a](https://b/c) [d](javascript:e) [f](//g)": "<p><a href=\"https://b/c\" rel=\"noreferrer\">a</a> [d](javascript:e) [f](//g)</p>\n",
		"[a](https://b/\"onclick=x)":                  "<p><a href=\"https://b/&#34;onclick=x\" rel=\"noreferrer\">a</a></p>\n",
		"see `help me` and `<x>`":                     "<p>see <a href=\"/h?&lt;\"><code>help me</code></a> and <code>&lt;x&gt;</code></p>\n",
	} {
		got := markdown.HTML(page, func(code string) string {
			if code == "help me" {
				return "/h?<"
			}
			return ""
		})
		if string(got) != want {
			t.Errorf("%q became\n%s, want\n%s", page, got, want)
		}
	}
}

var (
	tag   = regexp.MustCompile(`<[^>]*>`)
	known = regexp.MustCompile(`^</?(h[1-4]|p|ul|ol|li|pre|code|strong|table|tr|th|td|div)>$|^<div class="scroll">$|^</a>$|` +
		`^<a href="https://[^"<>]*" rel="noreferrer">$`)
)

// FuzzHTML: whatever a page holds, only our own tags come out, and each that is opened is closed.
func FuzzHTML(f *testing.F) {
	for _, s := range []string{"# a\n", "- a\n\n  b\n```\nc", "|a|b|\n", "**a** `b` [c](https://d)", "<script>alert(1)</script>",
		"[<img src=x>](https://\"><script>)", "**[a**](https://b)", "1. x\n- y\n```"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, page string) {
		var open []string
		for _, found := range tag.FindAllString(string(markdown.HTML(page, nil)), -1) {
			if !known.MatchString(found) {
				t.Fatalf("%q brought the tag %s", page, found)
			}
			name, _, _ := strings.Cut(strings.Trim(found, "</>"), " ")
			switch {
			case found[1] != '/':
				open = append(open, name)
			case name == "strong" || name == "a": // a link can begin within bold words, and end behind them
			case len(open) == 0:
				t.Fatalf("%q: %s closes nothing", page, found)
			}
		}
	})
}
