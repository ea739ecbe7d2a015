package client

import (
	"errors"
	"io"
	"strings"
	"testing"

	"muster/gateway/api"
)

func TestReadStream(t *testing.T) {
	const text = ": alive\n\nid: 7\nevent: node\ndata: {\"nodes\":[],\"gone\":[\"a\"]}\n\nevent: lost\ndata: {}\n\nevent:task\ndata:x\n"
	var got []string
	lines := 0
	err := readStream(strings.NewReader(text), func() { lines++ }, func(kind string, data []byte) error {
		got = append(got, kind+" "+string(data))
		return nil
	})
	if want := `node {"nodes":[],"gone":["a"]}|lost {}|task x`; strings.Join(got, "|") != want || lines != 11 || !IsLost(err) {
		t.Errorf("got %q, %d lines, %v", got, lines, err)
	}
	stop := errors.New("enough")
	err = readStream(strings.NewReader(text), func() {}, func(string, []byte) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("the reader's own error is %v", err)
	}
	long := io.MultiReader(strings.NewReader("data: "), strings.NewReader(strings.Repeat("x", streamLine)))
	if err = readStream(long, func() {}, func(string, []byte) error { return nil }); !IsLost(err) {
		t.Errorf("a line without an end: %v", err)
	}
}

// FuzzReadStream: whatever comes, it ends with an error and passes no line break on.
func FuzzReadStream(f *testing.F) {
	f.Add("id: 7\nevent: node\ndata: {}\n\n")
	f.Add(":\r\ndata")
	f.Fuzz(func(t *testing.T, text string) {
		err := readStream(strings.NewReader(text), func() {}, func(_ string, data []byte) error {
			if strings.Contains(string(data), "\n") {
				t.Errorf("%q", data)
			}
			_, _ = api.ReadStreamNodes(data)
			return nil
		})
		if err == nil {
			t.Error("a stream has no good end")
		}
	})
}
