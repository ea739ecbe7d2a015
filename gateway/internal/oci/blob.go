package oci

import (
	"net/http"
	"strconv"
	"time"
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
	http.ServeContent(c.w, c.r, "", time.Time{}, blob.File)
	return nil
}

func (c *call) deleteBlob() error {
	err := c.server.Registry.DeleteBlob(c.r.Context(), c.name, c.what, c.caller.Actor)
	if err == nil {
		c.w.WriteHeader(http.StatusAccepted)
	}
	return err
}
