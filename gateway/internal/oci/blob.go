package oci

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"muster/gateway/internal/artifact"
)

// headerDigest says what the answer's content, or what was stored, is called.
const headerDigest = "Docker-Content-Digest"

// content sets the headers of an answer with content.
func (c *call) content(mediaType, digest string) {
	h := c.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set(headerDigest, digest)
	h.Set("ETag", `"`+digest+`"`)
}

// getBlob sends a blob or a part of one. For HEAD the blob need not be opened, and the client's question keeps it from being collected.
func (c *call) getBlob() error {
	if c.r.Method == http.MethodHead {
		size, err := c.server.Registry.Stat(c.r.Context(), c.name, c.what)
		if err != nil {
			return err
		}
		c.content("application/octet-stream", c.what)
		c.w.Header().Set("Accept-Ranges", "bytes")
		c.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		return nil
	}
	blob, err := c.server.Registry.Blob(c.r.Context(), c.name, c.what)
	if err != nil {
		return err
	}
	defer blob.Close()
	c.content("application/octet-stream", blob.Digest)
	return c.sendPart(blob.File)
}

// sendPart answers with content, or with the part of it that was asked for. A part that is not there gets an error in the registry's form.
func (c *call) sendPart(content io.ReadSeeker) error {
	w := &partWriter{ResponseWriter: c.w}
	http.ServeContent(w, c.r, "", time.Time{}, content)
	if w.refused {
		return &artifact.Error{Code: artifact.CodeRangeInvalid, Message: "the content ends before these bytes: ask for it from its beginning"}
	}
	return nil
}

// partWriter holds back net/http's own answer to a part that is not there, which is plain text.
type partWriter struct {
	http.ResponseWriter
	refused bool
}

func (p *partWriter) WriteHeader(status int) {
	if p.refused = status == http.StatusRequestedRangeNotSatisfiable; !p.refused {
		p.ResponseWriter.WriteHeader(status)
	}
}

func (p *partWriter) Write(text []byte) (int, error) {
	if p.refused {
		return len(text), nil
	}
	return p.ResponseWriter.Write(text)
}

// ReadFrom lets the kernel send a file, as without this writer: net/http copies what it found, and no error.
func (p *partWriter) ReadFrom(from io.Reader) (int64, error) { return io.Copy(p.ResponseWriter, from) }

func (c *call) deleteBlob() error {
	err := c.server.Registry.DeleteBlob(c.r.Context(), c.name, c.what, c.caller.Actor)
	if err == nil {
		c.w.WriteHeader(http.StatusAccepted)
	}
	return err
}
