package peer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// peekTime is for the first byte of a connection, and for the first line of a request.
	peekTime = 10 * time.Second
	// mostLine bounds what is looked at of it, in bytes: the paths of a gateway's own are short.
	mostLine = 64
	// endTime is for an answer and the caller's end, and mostUnread how much a caller may send meanwhile, in bytes.
	endTime    = 2 * time.Second
	mostUnread = 1 << 20
)

// peeked is a connection of which the first bytes were looked at.
type peeked struct {
	net.Conn
	rest *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.rest.Read(b) }

// CloseWrite ends what is sent.
func (p peeked) CloseWrite() error {
	half, ok := p.Conn.(interface{ CloseWrite() error })
	if !ok {
		return p.Conn.Close()
	}
	return half.CloseWrite()
}

// peek waits until a caller has begun to say something. If it talks HTTP, its first request is answered if that is for a path of this
// gateway's own. Else the connection is as it was.
func (r *Relay) peek(c net.Conn, talks bool) (whole net.Conn, answered bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(peekTime)); err != nil {
		return c, false, err
	}
	p := peeked{c, bufio.NewReaderSize(c, mostLine)}
	if _, err := p.rest.Peek(1); err != nil {
		return p, false, err
	}
	if !talks {
		return p, false, c.SetReadDeadline(time.Time{})
	}
	path, err := p.path()
	if err != nil {
		return p, false, err
	}
	if status, body, own := r.Own(path); own {
		return p, true, answerHTTP(c, status, body)
	}
	return p, false, c.SetReadDeadline(time.Time{})
}

// answerHTTP answers a request of which not all was read. It waits for a moment until the caller ends: bytes that were not read would have
// the connection reset, and perhaps the answer lost.
func answerHTTP(c net.Conn, status int, body string) error {
	answer := http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Close: true, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
	if err := errors.Join(c.SetDeadline(time.Now().Add(endTime)), answer.Write(c)); err != nil {
		return err
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c, mostUnread))
	}
	return nil
}

// path is that of a request by GET; "": it is another one, or none of HTTP.
func (p peeked) path() (string, error) {
	for n := 1; n <= mostLine; n++ {
		begin, err := p.rest.Peek(n)
		if err != nil {
			return "", fmt.Errorf("a request's first line: %w", err)
		}
		if rest, get := bytes.CutPrefix(begin, []byte("GET ")); get && bytes.HasSuffix(rest, []byte(" ")) {
			return string(bytes.TrimSuffix(rest, []byte(" "))), nil
		}
		if line := "GET /"; !strings.HasPrefix(line, string(begin)) && !bytes.HasPrefix(begin, []byte(line)) {
			return "", nil
		}
	}
	return "", nil
}
