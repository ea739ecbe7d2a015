package screen_test

import (
	"strings"
	"testing"

	"muster/gateway/internal/cli/screen"
)

// TestBelow: a sentence that has no room in its row stands whole below it, also on later pages; where there is room, it is a column.
func TestBelow(t *testing.T) {
	t.Parallel()
	columns := []screen.Column{{Name: "NAME"}, {Name: "WHAT", Below: true, Most: 80}, {Name: "N"}}
	const wide = "a sentence that goes on and on"
	for limit, want := range map[int]string{
		0:  "NAME  WHAT                            N\na     " + wide + "  1\nb     -                               2\nc     " + wide + "  3\n",
		39: "NAME  WHAT                            N\na     " + wide + "  1\nb     -                               2\nc     " + wide + "  3\n",
		38: "NAME  N\na     1\n  " + wide + "\nb     2\nc     3\n  " + wide + "\n",
		20: "NAME  N\na     1\n  a sentence that\n  goes on and on\nb     2\nc     3\n  a sentence that\n  goes on and on\n",
	} {
		var out strings.Builder
		l := screen.NewList(&out, false, limit, columns)
		for _, page := range [][][]string{{{"a", wide, "1"}, {"b", screen.Unknown, "2"}}, {{"c", wide, "3"}}} {
			if err := l.Write(page); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("%d columns:\n%swant:\n%s", limit, &out, want)
		}
	}
}
