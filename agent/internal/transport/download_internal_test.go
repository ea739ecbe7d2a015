package transport

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
)

// FuzzDownloadHead takes any head of an answer. A download goes on only with the whole, or with a part that begins where it broke off.
func FuzzDownloadHead(f *testing.F) {
	f.Add(206, "bytes 4-7/8", []byte("5678"))
	f.Add(206, "bytes 0-3/8", []byte("1234"))
	f.Add(200, "", []byte("12345678"))
	f.Fuzz(func(t *testing.T, status int, part string, body []byte) {
		var got bytes.Buffer
		d := &Download{To: &got, From: 4}
		err := d.begin(Answer{Status: status, Header: http.Header{"Content-Range": {part}}})
		if err == nil && status != 200 && !bytes.HasPrefix([]byte(part), []byte("bytes 4-")) {
			t.Fatalf("status %d with range %q goes on", status, part)
		}
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(d, "%s", body); err != nil {
			t.Fatal(err)
		}
		if status == 200 {
			body = body[min(4, len(body)):]
		}
		if !bytes.Equal(got.Bytes(), body) || d.From != 4+int64(len(body)) {
			t.Fatalf("%q were written, %d counted", got.Bytes(), d.From)
		}
	})
}

// TestDownloadAfterAWholeBrokeOff: the content comes as a whole and breaks off among the bytes that are there. Then the rest comes.
func TestDownloadAfterAWholeBrokeOff(t *testing.T) {
	var got bytes.Buffer
	d := &Download{To: &got, From: 4}
	for _, answer := range []struct {
		status int
		part   string
		body   string
	}{{200, "", "12"}, {206, "bytes 4-7/8", "5678"}} {
		if err := d.begin(Answer{Status: answer.status, Header: http.Header{"Content-Range": {answer.part}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write([]byte(answer.body)); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != "5678" || d.From != 8 {
		t.Errorf("%q were written, %d counted", got.String(), d.From)
	}
}
