package adminapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"muster/gateway/internal/client"
)

// written is what a task has written at an offset.
type written struct {
	offset int64
	text   string
}

// TestTranscript: every byte comes once and in order. What is missing is told to a person in a line, and to a program by where answers
// begin and end.
func TestTranscript(t *testing.T) {
	whole := []written{{0, "abc"}, {3, "def"}}
	overlap := []written{{0, "abcd"}, {2, "cdef"}, {3, "d"}}
	gap := []written{{0, "abc"}, {10, "klm"}}
	late := []written{{10, "klm"}, {13, "nop"}}
	for _, c := range []struct {
		name   string
		pieces []written
		from   int64
		exact  bool
		want   string
		offset string
	}{
		{"whole", whole, 0, false, "abcdef", "0"},
		{"whole, counted", whole, 0, true, "abcdef", "0"},
		{"nothing", nil, 0, true, "", "0"},
		{"nothing from the middle", nil, 7, true, "", "7"},
		{"from the middle", whole, 4, true, "ef", "4"},
		{"from the end", whole, 6, true, "", "6"},
		{"from beyond the end", whole, 9, true, "", "9"},
		{"overlap", overlap, 0, true, "abcdef", "0"},
		{"gap", gap, 0, false, "abc\n[7 bytes are not kept]\nklm", "0"},
		{"gap, counted", gap, 0, true, "abc", "0"},
		{"inside the gap, counted", gap, 5, true, "klm", "10"},
		{"at the gap, counted", gap, 3, true, "klm", "10"},
		{"behind the gap, counted", gap, 11, true, "lm", "11"},
		{"the beginning is gone", late, 0, false, "\n[10 bytes are not kept]\nklmnop", "0"},
		{"the beginning is gone, counted", late, 0, true, "klmnop", "10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			out := &transcript{w: w, next: c.from, exact: c.exact, live: true}
			var err error
			for _, p := range c.pieces {
				if err = out.piece(p.offset, []byte(p.text)); err != nil {
					break
				}
			}
			if answer, err := out.end(err); err != nil || answer != (streamed{}) {
				t.Fatalf("got %v, %v", answer, err)
			}
			if got := w.Body.String(); w.Code != 200 || got != c.want || w.Header().Get(client.HeaderTaskOffset) != c.offset {
				t.Errorf("got %d %q at %q, want %q at %q", w.Code, got, w.Header().Get(client.HeaderTaskOffset), c.want, c.offset)
			}
			if len(c.want) > 0 && !w.Flushed {
				t.Error("a reader has to wait for what was written")
			}
		})
	}
}

// TestTranscriptFails: before the first byte an error is answered as one. After that the answer is cut, so that it does not look whole.
func TestTranscriptFails(t *testing.T) {
	broken := errors.New("the disk is gone")
	out := &transcript{w: httptest.NewRecorder()}
	if answer, err := out.end(broken); answer != nil || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", answer, err)
	}
	if err := out.piece(0, []byte("a")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("got %v", got)
		}
	}()
	answer, err := out.end(broken)
	t.Errorf("got %v, %v", answer, err)
}

// TestAttachment: the name of a file comes from a node, so it is nothing but a name in the header.
func TestAttachment(t *testing.T) {
	for name, want := range map[string]string{
		"diag.tar.gz": `attachment; filename=diag.tar.gz`,
		`a"; b=c`:     `attachment; filename="a\"; b=c"`,
		"a\r\nX: y":   "attachment; filename*=utf-8''a%0D%0AX%3A%20y",
		"":            `attachment; filename=""`,
	} {
		if got := attachment(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
