package transport

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
)

// FuzzDownloadHead takes any head of an answer. A download goes on only with a part that begins where it broke off and has the same tag.
func FuzzDownloadHead(f *testing.F) {
	f.Add(206, `"a"`, "bytes 4-7/8", []byte("5678"))
	f.Add(206, `"a"`, "bytes 4-7/*", []byte("5678"))
	f.Add(206, `"b"`, "bytes 0-3/8", []byte("1234"))
	f.Add(200, `W/"a"`, "", []byte("12345678"))
	f.Fuzz(func(t *testing.T, status int, tag, part string, body []byte) {
		var got bytes.Buffer
		d := &Download{To: &got, Most: 16}
		first := Answer{Status: 200, Header: http.Header{"Etag": {`"a"`}}}
		if err := d.begin(first, true); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write([]byte("1234")); err != nil {
			t.Fatal(err)
		}
		a := Answer{Status: status, Header: http.Header{"Etag": {tag}, "Content-Range": {part}}}
		err := d.begin(a, true)
		if err == nil && (status == 200 || tag != `"a"` || !bytes.HasPrefix([]byte(part), []byte("bytes 4-"))) {
			t.Fatalf("status %d with tag %q and range %q goes on", status, tag, part)
		}
		if err != nil {
			return
		}
		_, err = d.Write(body)
		if d.Size() > d.Most || d.Size() != int64(got.Len()) || (err == nil) != (len(body) <= 12) {
			t.Fatalf("%d bytes are counted, %d were written, error %v", d.Size(), got.Len(), err)
		}
		if d.whole(a) && status == 206 && part == fmt.Sprintf("bytes 4-/%d", d.Size()+1) {
			t.Fatal("a part is taken for the rest")
		}
	})
}
