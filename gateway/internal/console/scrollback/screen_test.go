package scrollback_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"muster/gateway/internal/console/scrollback"
)

// shown is what a terminal of 10 columns and 3 rows says, one line each.
func shown(t *testing.T, sent ...string) string {
	t.Helper()
	var all []string
	s := scrollback.New(10, 3, func(l scrollback.Line) error {
		if l.Whole > 0 {
			l.Text = fmt.Sprint("whole screen for ", l.Whole)
		}
		all = append(all, l.Text)
		return nil
	})
	for i, piece := range sent {
		if err := s.Write(time.Duration(i)*time.Second, piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "|")
}

// TestText: the text is what stands on a terminal, with what has scrolled away, and with what was cleared.
func TestText(t *testing.T) {
	for _, c := range []struct{ what, sent, want string }{
		{"lines", "one\r\ntwo\r\n", "one|two"},
		{"more than the screen has rows", "1\r\n2\r\n3\r\n4\r\n5", "1|2|3|4|5"},
		{"empty lines stay", "a\r\n\r\nb", "a||b"},
		{"colours", "\x1b[1;31mred\x1b[0m", "red"},
		{"a title", "\x1b]0;title\aa\x1b]2;more\x1b\\b", "ab"},
		{"strings that end early", "\x1bPx\x18a\x1b]x\x1b[31mb\x1b_x\x1a" + "c", "abc"},
		{"a title without an end", "a\x1b]0;the rest", "a"},
		{"C1", "\u009b31mred\u009d0;title\u009c!", "red!"},
		{"character sets", "\x1b(Ba\x1b)0b\x1b#8c", "abc"},
		{"written over", "100 %\rdone ", "done"},
		{"corrected", "ls -ö\b \b-a", "ls --a"},
		{"to the end erased", "abcdef\x1b[3D\x1b[K", "abc"},
		{"to the beginning erased", "abcdef\x1b[4D\x1b[1K", "   def"},
		{"the line erased", "abc\r\x1b[2Kd", "d"},
		{"cells", "abcdef\r\x1b[2P\x1b[@\x1b[5G\x1b[1X", " cde"},
		{"a tab", "a\tb", "a       b"},
		{"wrapped", "0123456789abc\r\nnext", "0123456789abc|next"},
		{"a full line is not wrapped", "0123456789\r\nnext", "0123456789|next"},
		{"a shell that wraps by itself", "0123456789 \rabc", "0123456789abc"},
		{"a wrapped line that is erased", "$\r\n0123456789abc\r\x1b[A\x1b[Jx", "$|x"},
		{"up and down", "a\r\nb\x1b[A\rc\x1b[Bd", "c|bd"},
		{"absolute", "\x1b[2;3Hx\x1b[1d\x1b[Gy", "y|  x"},
		{"to lines", "a\x1b[Eb\x1b[Fc\x1b[Bd", "c|bd"},
		{"kept and restored", "ab\x1b7cd\x1b8ef\x1b[sgh\x1b[uij", "abefij"},
		{"cleared", "secret\x1b[H\x1b[2J\x1b[3Jnew", "secret|new"},
		{"cleared as clear does it on some", "secret\x1b[H\x1b[Jnew", "secret|new"},
		{"erased above", "a\r\nb\r\nc\x1b[1Jd", "|| d"},
		{"a reset", "secret\x1bcnew", "secret|new"},
		{"rows", "a\r\nb\r\nc\x1b[H\x1b[Lx\x1b[B\r\x1b[M", "x|b"},
		{"scrolled", "a\r\nb\r\nc\x1b[Sd\x1b[Te", "a||b|c e"},
		{"the other way", "a\r\nb\x1b[H\x1bMc", "c|a|b"},
		{"a region", "\x1b[1;2r1\r\n2\r\n3\x1b[3;1Hbar", "1|2|3|bar"},
		{"a region that is none", "\x1b[3;2ra\x1b[9;99rb", "ab"},
		{"index and next line", "a\x1bDb\x1bEc\x1bMd", "a| d|c"},
		{"repeated", "ab\x1b[3b\x1b[9999999999b", "abbbb" + strings.Repeat("b", 10)},
		{"wide", "日本語日本語", "日本語日本語"},
		{"drawn over one another", "e\u0301" + strings.Repeat("\u0302", 50), "e\u0301" + strings.Repeat("\u0302", 6)},
		{"over nothing", "\u0301a", "a"},
		{"a bell", "a\ab\x00c\x7f", "abc"},
		{"unknown", "\x1b[?25l\x1b[>c\x1b[1 q\x1b[99za\x1b=b", "ab"},
		{"broken off", "\x1b[12;\x1b[31ma\x1b[3日b", "ab"},
		{"a whole screen", "before\x1b[?1049hvim\x1b[31m\r\n\x1b[2J\x1b[?1049lafter", "before|whole screen for 1ns|after"},
		{"without an end", "before\x1b[?47;25hvim", "before|whole screen for 1ns"},
		{"back from nowhere", "a\x1b[?1049lb", "ab"},
	} {
		if got := shown(t, c.sent); got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}

// TestTimes: a line has the time of its last change, and a program that takes the screen over its length.
func TestTimes(t *testing.T) {
	var all []string
	s := scrollback.New(80, 24, func(l scrollback.Line) error {
		all = append(all, fmt.Sprintf("%s %s %s", l.At, l.Text, l.Whole))
		return nil
	})
	for i, piece := range []string{"$ ", "l", "s\r\n", "a b\r\n", "$ vi\r\n\x1b[?1049h", "text", "\x1b[?1049l$ "} {
		if err := s.Write(time.Duration(i)*time.Second, piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write(0, "x"); err != nil { // time does not run back
		t.Fatal(err)
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	want := "2s $ ls 0s|3s a b 0s|4s $ vi 0s|6s  2s|6s $ x 0s"
	if got := strings.Join(all, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestResize: rows leave where the screen becomes lower, and a size that no terminal has does nothing.
func TestResize(t *testing.T) {
	var all []string
	s := scrollback.New(1<<40, -1, func(l scrollback.Line) error {
		all = append(all, l.Text)
		return nil
	})
	steps := []error{s.Write(0, "a\r\nb\r\n")}
	s.Resize(4, 1<<40)
	steps = append(steps, s.Write(0, "c\r\nd\r\ne"))
	s.Resize(0, 0)
	steps = append(steps, s.Write(0, "日x"), s.End())
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(all, "|"); got != "a|b|c|d|日x" {
		t.Errorf("got %s", got)
	}
}

// TestEnough: who has enough is given nothing more.
func TestEnough(t *testing.T) {
	enough := errors.New("enough")
	count := 0
	s := scrollback.New(80, 2, func(scrollback.Line) error {
		count++
		return enough
	})
	if err := s.Write(0, "1\r\n2\r\n3\r\n4\r\n"); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if err := s.End(); !errors.Is(err, enough) || count != 1 {
		t.Errorf("got %v, %d lines", err, count)
	}
}

// TestLongLine: a line that wraps for ever is given in pieces, and none of it is lost.
func TestLongLine(t *testing.T) {
	var got strings.Builder
	lines := 0
	s := scrollback.New(80, 24, func(l scrollback.Line) error {
		lines++
		got.WriteString(l.Text)
		return nil
	})
	sent := strings.Repeat("0123456789", 10_000)
	if err := errors.Join(s.Write(0, sent), s.End()); err != nil || got.String() != sent || lines < 10 {
		t.Errorf("%d lines, %d bytes, %v", lines, got.Len(), err)
	}
}

// FuzzScreen: whatever a terminal is sent, its text has no control, and is no longer than what was sent allows.
func FuzzScreen(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\x1b[?1049hx\x1b[?1049l", "\x1b[5L\x1b[9M\x1b[2;5r\x1b[9S\x1b[9T\x1bM", "日\b\x1b[@\x1b[P\u0301",
		"\x1b[2J\x1b[H\x1b[J\x1b[1J", "ab\x1b[9999b", "\x1b]x\x1b\\\u009b1m\x1b[;;;;;;;;;;;;;;;;;;;;;;H"} {
		f.Add(s, 80, 24)
	}
	f.Fuzz(func(t *testing.T, sent string, width, height int) {
		s := scrollback.New(width, height, func(l scrollback.Line) error {
			if i := strings.IndexFunc(l.Text, unicode.IsControl); i >= 0 || len(l.Text) > 1<<16 || l.Whole < 0 {
				t.Errorf("%q became %q", sent, l.Text)
			}
			return nil
		})
		half := len(sent) / 2
		err := s.Write(time.Second, sent[:half])
		s.Resize(height, width)
		if err := errors.Join(err, s.Write(2*time.Second, sent[half:]), s.End()); err != nil {
			t.Error(err)
		}
	})
}
