package oci

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"muster/gateway/internal/artifact"
)

// incoming is a request's body. A fault in it is the peer's.
type incoming struct{ from io.Reader }

func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &brokenBody{err}
	}
	return n, err
}

// begin takes a blob in one request, mounts one that is here already, or begins an upload.
func (c *call) begin() error {
	ctx := c.r.Context()
	registry := c.server.Registry
	if mounted, err := c.mount(); mounted || err != nil {
		return err
	}
	if algorithm := c.query.Get("digest-algorithm"); algorithm != "" && algorithm != artifact.SHA256 && algorithm != artifact.SHA512 {
		return &artifact.Error{Code: artifact.CodeDigestInvalid, Message: "digests are by sha256 or sha512"}
	}
	if digest := c.query.Get("digest"); digest != "" {
		if err := registry.Put(ctx, c.name, digest, c.r.ContentLength, c.body()); err != nil {
			return err
		}
		c.created(c.path("blobs", digest), digest)
		return nil
	}
	id, err := registry.Begin(ctx, c.name)
	if err != nil {
		return err
	}
	c.stands(http.StatusAccepted, id, 0)
	return nil
}

// mount answers where the client wants a blob that is here already. A blob may be mounted from every repository: whoever may push may also
// read all of them.
func (c *call) mount() (done bool, err error) {
	digest := c.query.Get("mount")
	from := c.query.Get("from")
	if digest == "" {
		return false, nil
	}
	if from != "" {
		if err := artifact.CheckName(from); err != nil {
			return false, err
		}
	}
	done, err = c.server.Registry.Mount(c.r.Context(), c.name, digest, from)
	if done && err == nil {
		c.created(c.path("blobs", digest), digest)
	}
	return done, err
}

// stands tells how far an upload has come.
func (c *call) stands(status int, id string, size int64) {
	h := c.w.Header()
	h.Set("Location", c.path("blobs/uploads", id))
	h.Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	c.w.WriteHeader(status)
}

func (c *call) progress() error {
	size, err := c.server.Registry.Progress(c.r.Context(), c.name, c.what)
	if err == nil {
		c.stands(http.StatusNoContent, c.what, size)
	}
	return err
}

// add takes a piece of a blob.
func (c *call) add() error {
	offset, err := c.offset()
	if err != nil {
		return err
	}
	size, err := c.server.Registry.Append(c.r.Context(), c.name, c.what, offset, c.body())
	if err == nil {
		c.stands(http.StatusAccepted, c.what, size)
	}
	return err
}

// finish takes the last piece, if there is one, and makes a blob of the upload.
func (c *call) finish() error {
	digest := c.query.Get("digest")
	if _, err := artifact.ParseDigest(digest); err != nil {
		return err
	}
	offset, err := c.offset()
	if err != nil {
		return err
	}
	if err := c.server.Registry.Finish(c.r.Context(), c.name, c.what, offset, digest, c.body()); err != nil {
		return err
	}
	c.created(c.path("blobs", digest), digest)
	return nil
}

func (c *call) cancel() error {
	err := c.server.Registry.Cancel(c.r.Context(), c.name, c.what)
	if err == nil {
		c.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// offset reads where a piece belongs, from a Content-Range as the specification has it: FIRST-LAST. -1: at the end of what is there.
func (c *call) offset() (int64, error) {
	text := c.r.Header.Get("Content-Range")
	if text == "" {
		return -1, nil
	}
	from, to, _ := strings.Cut(text, "-")
	first, err := parseOffset(from)
	last, wrong := parseOffset(to)
	length := c.r.ContentLength
	if err != nil || wrong != nil || last < first || length >= 0 && length != last-first+1 {
		return 0, &artifact.Error{Code: artifact.CodeBlobUploadInvalid,
			Message: "the Content-Range of a piece is FIRST-LAST, and the body has as many bytes"}
	}
	return first, nil
}

// parseOffset reads digits alone, where strconv would take a sign too.
func parseOffset(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err
}
