package oci

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/reply"
)

func (c *call) getManifest() error {
	found, err := c.server.Registry.Manifest(c.r.Context(), c.name, c.what)
	if err != nil {
		return err
	}
	c.content(found.MediaType, found.Digest)
	return c.sendPart(bytes.NewReader(found.Body))
}

// putManifest stores a manifest byte by byte, under its digest and all its tags.
func (c *call) putManifest() error {
	tags := c.query["tag"]
	for _, tag := range append([]string{c.what}, tags...) {
		if secret.TokenLike(tag) {
			return &artifact.Error{Code: artifact.CodeManifestInvalid, Message: "the tag looks like a token: revoke it if it is one"}
		}
	}
	body, err := c.document()
	if err != nil {
		return err
	}
	mediaType, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	stored, err := c.server.Registry.PutManifest(c.r.Context(), c.name, artifact.PutManifest{
		Reference: c.what, MediaType: strings.TrimSpace(mediaType), Body: body, Tags: tags, By: c.caller.Actor,
	})
	if err != nil {
		return err
	}
	h := c.w.Header()
	if stored.Subject != "" {
		h.Set("OCI-Subject", stored.Subject)
	}
	for _, tag := range tags {
		h.Add("OCI-Tag", tag)
	}
	c.created(c.path("manifests", stored.Digest), stored.Digest)
	return nil
}

// document reads the body of a route that takes a document, whole.
func (c *call) document() ([]byte, error) {
	tooLarge := &artifact.Error{Code: artifact.CodeSizeInvalid, Message: fmt.Sprintf("a manifest has %d bytes at most", c.route.Body)}
	if c.r.ContentLength > c.route.Body {
		c.w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(c.body(), c.route.Body+1))
	if err == nil && int64(len(body)) > c.route.Body {
		c.w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	return body, err
}

func (c *call) deleteManifest() error {
	err := c.server.Registry.DeleteManifest(c.r.Context(), c.name, c.what, c.caller.Actor)
	if err == nil {
		c.w.WriteHeader(http.StatusAccepted)
	}
	return err
}

// referrers lists what refers to a manifest, as an index.
func (c *call) referrers() error {
	if _, err := artifact.ParseDigest(c.what); err != nil {
		return err
	}
	kind := c.query.Get("artifactType")
	found, err := c.server.Registry.Referrers(c.r.Context(), c.name, c.what, kind)
	if err != nil {
		return err
	}
	if kind != "" {
		c.w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	c.send(wire.MediaIndex, struct {
		SchemaVersion int                   `json:"schemaVersion"`
		MediaType     string                `json:"mediaType"`
		Manifests     []artifact.Descriptor `json:"manifests"`
	}{2, wire.MediaIndex, append([]artifact.Descriptor{}, found...)})
	return nil
}

// tags lists a repository's tags, or a page of them.
func (c *call) tags() error {
	n, last, err := c.page()
	if err != nil {
		return err
	}
	tags, more, err := c.server.Registry.Tags(c.r.Context(), c.name, n, last)
	if err != nil {
		return err
	}
	if more && len(tags) > 0 {
		c.next(n, tags[len(tags)-1])
	}
	c.send("application/json", struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{c.name, append([]string{}, tags...)})
	return nil
}

// catalog lists the repositories, or a page of them. Nobody's pass shows those that it opens.
func (c *call) catalog() error {
	n, last, err := c.page()
	if err != nil {
		return err
	}
	all, err := c.server.Registry.Repositories(c.r.Context())
	if err != nil {
		return err
	}
	page := []string{}
	for _, name := range all {
		hidden := c.caller.Account.ID == "" && !c.caller.Opens(name, account.ActionPull)
		if name <= last || hidden {
			continue
		}
		if len(page) == n {
			if n > 0 {
				c.next(n, page[n-1])
			}
			break
		}
		page = append(page, name)
	}
	c.send("application/json", map[string][]string{"repositories": page})
	return nil
}

// send answers with JSON of a media type.
func (c *call) send(mediaType string, v any) {
	body := reply.JSON(v)
	h := c.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = c.w.Write(body) // the connection is gone: nobody is left to tell
}
