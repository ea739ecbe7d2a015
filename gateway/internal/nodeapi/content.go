package nodeapi

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/httpserver"
)

// Content is an answer that is a file: too large for the memory, and sent in a part if the node asks for one. The sender of the answer
// closes it.
type Content struct {
	io.ReadSeekCloser
	Digest string // sha256:<hex> of the whole file
}

// send writes a file, or the part that was asked for. The proof of a part covers the digest of the whole file: the node has the bytes
// before that part, and checks all of them together.
func (a *API) send(w http.ResponseWriter, r *http.Request, s *sign.Signature, c Content) {
	defer c.Close()
	sum, err := hex.DecodeString(strings.TrimPrefix(c.Digest, "sha256:"))
	if err != nil {
		a.answer(w, s, nil, errors.New("a file whose digest is not SHA-256: "+c.Digest))
		return
	}
	h := w.Header()
	h.Set("Content-Type", wire.MediaProgram)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"`+c.Digest+`"`)
	head := &contentHead{ResponseWriter: httpserver.Patient(w), prove: func(status int) {
		if s != nil {
			h.Set(wire.HeaderAnswer, sign.SignAnswerDigest(a.Authority.AnswerKey(), s.Nonce, status, sign.SumDigest(sum)))
		}
	}}
	http.ServeContent(head, partOf(r), "", time.Time{}, c)
	if head.refused {
		a.answer(w, s, nil, wire.Refuse(wire.CodeBadRange, "there are no such bytes: the file ends before them", "fetch it from its beginning"))
	}
}

// partOf keeps only what asks for one part of a file. Several parts in one answer would have no digest that the node could check, so the
// file goes out whole.
func partOf(r *http.Request) *http.Request {
	plain := &http.Request{Method: r.Method, Header: http.Header{}}
	for _, name := range []string{"Range", "If-Range"} {
		if values := r.Header[name]; len(values) == 1 && !strings.Contains(values[0], ",") {
			plain.Header[name] = values
		}
	}
	return plain
}

// contentHead proves the answer when its status is known. It holds back the answer to a part that is not there.
type contentHead struct {
	http.ResponseWriter
	prove   func(status int)
	refused bool
}

func (c *contentHead) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		c.refused = true
		return
	}
	c.prove(status)
	c.ResponseWriter.WriteHeader(status)
}

func (c *contentHead) Write(data []byte) (int, error) {
	if c.refused {
		return len(data), nil
	}
	return c.ResponseWriter.Write(data)
}
