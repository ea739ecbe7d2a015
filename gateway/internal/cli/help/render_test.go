package help_test

import (
	"strings"
	"testing"

	"muster/gateway/internal/cli/help"
)

const page = "# pages: what they look like\n\n" +
	"A paragraph with `code that stays together` and\n**bold words**, and a [link](https://a.example/).\n\n" +
	"## Lists\n\n- one that is long enough for\n  a second line\n- two\n\n" +
	"1. Do this:\n\n   ```\n   muster node ls \\\n          -o wide\n   ```\n\n   and then rest.\n\nAfter the list.\n\n" +
	"| flag | what it does |\n| --- | --- |\n| `--mode` | `a\\|b`, and more words than fit into it |\n| `--x` | nothing |\n\n" +
	"```\nleft   as it is\n\n  here\n```\n"

func TestRender(t *testing.T) {
	want := strings.TrimPrefix(`
pages: what they look like

  A paragraph with
  `+"`code that stays together`"+` and
  bold words, and a link
  (https://a.example/).

Lists

  - one that is long enough for a
    second line
  - two

  1. Do this:

     muster node ls \
            -o wide

     and then rest.

  After the list.

  flag      what it does
  `+"`--mode`  `a|b`"+`, and more words
            than fit into it
  `+"`--x`"+`     nothing

    left   as it is

      here
`, "\n")
	if got := help.Render(page, 34, false); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	narrow := "  flag\n      what it\n      does\n  `--mode`\n      `a|b`, and\n"
	if got := help.Render(page, 16, false); !strings.Contains(got, narrow) {
		t.Errorf("in 16 columns there is no\n%s\nin\n%s", narrow, got)
	}
	styled := help.Render(page, 34, true)
	for _, want := range []string{"\x1b[1mLists\x1b[22m\n",
		"\x1b[1mcode that stays together\x1b[22m and", "\x1b[1mbold\x1b[22m \x1b[1mwords\x1b[22m,",
		"  \x1b[1mflag\x1b[22m    \x1b[1mwhat it does"} {
		if !strings.Contains(styled, want) {
			t.Errorf("with style there is no %q in:\n%q", want, styled)
		}
	}
}

// TestRenderCode: code that no line holds is broken at its spaces, and keeps its marks at both ends.
func TestRenderCode(t *testing.T) {
	long := "`muster node create gpu-7 --tenant platform --label rack=7 --gpus 8`"
	got := help.Render("Say "+long+".\n", 40, false)
	if want := "  Say `muster node create gpu-7 --tenant\n  platform --label rack=7 --gpus 8`.\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// FuzzRender: whatever a page holds, laying it out ends and loses no word.
func FuzzRender(f *testing.F) {
	f.Add(page, 34)
	f.Add("|\n||\n| |a\n```", 1)
	f.Add("- \n1.  x\n#\n`", 0)
	f.Fuzz(func(t *testing.T, page string, columns int) {
		if got := help.Render(page, columns%200, false); !strings.HasSuffix(got, "\n") {
			t.Errorf("no end: %q", got)
		}
	})
}
