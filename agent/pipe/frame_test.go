package pipe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"muster/agent/pipe"
)

// TestFrames: frames come out as they went in, however the bytes are cut.
func TestFrames(t *testing.T) {
	var wire bytes.Buffer
	long := strings.Repeat("x", pipe.MaxFrame)
	for _, err := range []error{
		pipe.WriteFrame(&wire, pipe.FrameOutput, []byte("ab")),
		pipe.WriteFrame(&wire, pipe.FrameInputEnd, nil),
		pipe.WriteFrame(&wire, pipe.FrameError, []byte(long)),
		pipe.WriteJSON(&wire, pipe.FrameSize, pipe.Size{Rows: 3, Columns: 4}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	frames := pipe.NewFrames(iotest.OneByteReader(&wire))
	for _, want := range []struct {
		kind pipe.FrameKind
		data string
	}{
		{pipe.FrameOutput, "ab"}, {pipe.FrameInputEnd, ""}, {pipe.FrameError, long}, {pipe.FrameSize, `{"rows":3,"columns":4}`},
	} {
		kind, data, err := frames.Next()
		if kind != want.kind || string(data) != want.data || err != nil {
			t.Fatalf("%c with %d bytes, %v, want %c with %d", kind, len(data), err, want.kind, len(want.data))
		}
	}
	if _, _, err := frames.Next(); err != io.EOF {
		t.Errorf("the end gives %v", err)
	}
}

// TestFramesCut: a channel that ends within a frame has not ended well.
func TestFramesCut(t *testing.T) {
	var whole bytes.Buffer
	if err := pipe.WriteFrame(&whole, pipe.FrameOutput, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < whole.Len(); cut++ {
		if _, _, err := pipe.NewFrames(bytes.NewReader(whole.Bytes()[:cut])).Next(); err != io.ErrUnexpectedEOF {
			t.Errorf("after %d bytes: %v", cut, err)
		}
	}
	broken := errors.New("lost")
	if _, _, err := pipe.NewFrames(iotest.ErrReader(broken)).Next(); err != broken {
		t.Errorf("a broken channel gives %v", err)
	}
	half := io.MultiReader(bytes.NewReader(whole.Bytes()[:6]), iotest.ErrReader(broken))
	if _, _, err := pipe.NewFrames(half).Next(); err != broken {
		t.Errorf("a channel that breaks within a frame gives %v", err)
	}
}

// TestFrameTooLong: nobody takes memory for a frame that no side sends.
func TestFrameTooLong(t *testing.T) {
	if err := pipe.WriteFrame(io.Discard, pipe.FrameOutput, make([]byte, pipe.MaxFrame+1)); err == nil {
		t.Error("a frame that is too long was written")
	}
	if err := pipe.WriteJSON(io.Discard, pipe.FrameExit, pipe.Exit{Error: strings.Repeat("x", pipe.MaxFrame)}); err == nil {
		t.Error("a JSON frame that is too long was written")
	}
	if err := pipe.WriteJSON(io.Discard, pipe.FrameExit, func() {}); err == nil {
		t.Error("a value that JSON cannot hold was written")
	}
	head := []byte{byte(pipe.FrameOutput), 0xff, 0xff, 0xff, 0xff}
	if _, _, err := pipe.NewFrames(bytes.NewReader(head)).Next(); err == nil || err == io.ErrUnexpectedEOF {
		t.Errorf("a frame of 4 GiB gives %v", err)
	}
}

// TestFrameKinds: no two kinds of frames are the same byte. The list is read from the source, so that none is left out.
func TestFrameKinds(t *testing.T) {
	source, err := os.ReadFile("frame.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(Frame\w+) +FrameKind = '(.)'`).FindAllSubmatch(source, -1)
	if len(kinds) < 12 {
		t.Fatalf("%d kinds were found", len(kinds))
	}
	names := map[string]string{}
	for _, kind := range kinds {
		name, char := string(kind[1]), string(kind[2])
		if names[char] != "" {
			t.Errorf("%s and %s are both %s", names[char], name, char)
		}
		names[char] = name
	}
}

// TestFrameJSON: what the JSON of a frame says nothing of is left out, and a code of 0 is said.
func TestFrameJSON(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{pipe.Ready{}, `{}`}, {pipe.Exit{}, `{"code":0}`}, {pipe.Exit{Code: 130, Signal: "INT"}, `{"code":130,"signal":"INT"}`},
		{pipe.Dial{Channel: 1}, `{"channel":1}`}, {pipe.Dialed{Channel: 1, Error: "refused"}, `{"channel":1,"error":"refused"}`},
	} {
		if raw, err := json.Marshal(c.value); err != nil || string(raw) != c.want {
			t.Errorf("%+v is %s, %v", c.value, raw, err)
		}
	}
}

// FuzzFrames: whatever is read is written so again, and nothing of it takes more memory than a frame.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{'o', 0, 0, 0, 1, 'a', 'e', 0, 0, 0, 0})
	f.Add([]byte{'o', 0, 1, 0, 1})
	f.Add([]byte{'?', 0, 0, 0, 2, 'a'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		frames := pipe.NewFrames(bytes.NewReader(raw))
		var again bytes.Buffer
		for {
			kind, data, err := frames.Next()
			if err != nil {
				break
			}
			if err := pipe.WriteFrame(&again, kind, data); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(raw, again.Bytes()) {
			t.Errorf("%x was read as %x", raw, again.Bytes())
		}
	})
}
