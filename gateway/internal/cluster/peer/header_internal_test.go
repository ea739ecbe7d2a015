package peer

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

// reader is a connection from which a text comes.
type reader struct {
	net.Conn
	*bytes.Reader
}

func (r reader) Read(p []byte) (int, error) { return r.Reader.Read(p) }

// FuzzHeader: what stands before the bytes is one line of bounded length, and all after it is the caller's.
func FuzzHeader(f *testing.F) {
	for _, seed := range []string{"", "\n", `{"kind":"tls","address":"192.0.2.1:5"}` + "\nrest", "{}\n", strings.Repeat("x", 2*mostHeader),
		"{\"kind\":1}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, from []byte) {
		_, rest, err := readHeader(reader{Reader: bytes.NewReader(from)})
		at := bytes.IndexByte(from, '\n')
		if err != nil {
			return
		}
		if at < 0 || at >= mostHeader {
			t.Fatalf("%q has no header", from)
		}
		var left bytes.Buffer
		if _, err := left.ReadFrom(rest); err != nil || !bytes.Equal(left.Bytes(), from[at+1:]) {
			t.Errorf("%q is left of %q", left.Bytes(), from)
		}
	})
}
