package transcript_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/adminapi/transcript"
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
			out := &transcript.Writer{To: w, Next: c.from, Exact: c.exact, Live: true}
			var err error
			for _, p := range c.pieces {
				if err = out.Piece(p.offset, []byte(p.text)); err != nil {
					break
				}
			}
			if err := out.End(err); err != nil {
				t.Fatal(err)
			}
			if got := w.Body.String(); w.Code != 200 || got != c.want || w.Header().Get(api.HeaderTaskOffset) != c.offset {
				t.Errorf("got %d %q at %q, want %q at %q", w.Code, got, w.Header().Get(api.HeaderTaskOffset), c.want, c.offset)
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
	out := &transcript.Writer{To: httptest.NewRecorder()}
	if err := out.End(broken); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := out.Piece(0, []byte("a")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("got %v", got)
		}
	}()
	t.Errorf("got %v", out.End(broken))
}

// gone is the answer to a reader who cannot be reached for one of the writes.
type gone struct {
	*httptest.ResponseRecorder
	before int // writes that reach the reader
}

var errGone = errors.New("the reader has left")

func (g *gone) Write(data []byte) (int, error) {
	g.before--
	if g.before == -1 {
		return 0, errGone
	}
	return len(data), nil
}

func (g *gone) FlushError() error { return errGone }

// TestTranscriptWithoutReader: no failure of a write is passed over, so a task is not followed for a reader who has left.
func TestTranscriptWithoutReader(t *testing.T) {
	for _, c := range []struct {
		name   string
		before int
		offset int64
		live   bool
	}{
		{"the line for what is missing", 0, 5, false},
		{"the bytes", 0, 0, false},
		{"the bytes behind that line", 1, 5, false},
		{"the flush", 1, 0, true},
	} {
		out := &transcript.Writer{To: &gone{httptest.NewRecorder(), c.before}, Live: c.live}
		if err := out.Piece(c.offset, []byte("a")); !errors.Is(err, errGone) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
