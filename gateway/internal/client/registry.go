package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"muster/agent/wire"
)

// This file has what a push needs of the OCI registry in the gateway: the distribution specification's requests for blobs and manifests.

// longestRegistryError is how much of a refusal of the registry is read, in bytes.
const longestRegistryError = 64 << 10

// HasBlob reports whether a repository has a blob already.
func (c *Client) HasBlob(ctx context.Context, repository, digest string) (bool, error) {
	response, err := c.registry(ctx, http.MethodHead, c.registryPath(repository, "blobs/"+digest), "", nil, 0)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, registryRefusal(response)
}

// PutBlob uploads a blob of this size in bytes. The registry checks its digest.
func (c *Client) PutBlob(ctx context.Context, repository, digest string, size int64, from io.Reader) error {
	begun, err := c.registry(ctx, http.MethodPost, c.registryPath(repository, "blobs/uploads/"), "", nil, 0)
	if err != nil {
		return err
	}
	defer begun.Body.Close()
	if begun.StatusCode != http.StatusAccepted {
		return registryRefusal(begun)
	}
	place, err := c.uploadPlace(begun, digest)
	if err != nil {
		return err
	}
	return c.put(ctx, place, wire.MediaProgram, size, from)
}

// PutManifest uploads a manifest or an index. reference is its digest, or a tag.
func (c *Client) PutManifest(ctx context.Context, repository, reference, mediaType string, body []byte) error {
	place := c.registryPath(repository, "manifests/"+url.PathEscape(reference))
	return c.put(ctx, place, mediaType, int64(len(body)), bytes.NewReader(body))
}

func (c *Client) put(ctx context.Context, address, mediaType string, size int64, from io.Reader) error {
	response, err := c.registry(ctx, http.MethodPut, address, mediaType, from, size)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		return registryRefusal(response)
	}
	return nil
}

func (c *Client) registryPath(repository, rest string) string {
	return c.BaseURL + wire.PathRegistry + repository + "/" + rest
}

// uploadPlace is where a begun upload goes on. It must be at the gateway itself: the API token goes there too.
func (c *Client) uploadPlace(begun *http.Response, digest string) (string, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return "", err
	}
	place, err := begun.Request.URL.Parse(begun.Header.Get("Location"))
	if err != nil || begun.Header.Get("Location") == "" || place.Scheme != base.Scheme || place.Host != base.Host {
		return "", fmt.Errorf("the registry sends the upload to %q, which is not %s", begun.Header.Get("Location"), c.BaseURL)
	}
	q := place.Query()
	q.Set("digest", digest)
	place.RawQuery = q.Encode()
	return place.String(), nil
}

// registry makes a request that may take long, because of what it sends. The caller closes the answer's body.
func (c *Client) registry(ctx context.Context, method, address, mediaType string, body io.Reader, size int64) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.ContentLength = size
		r.Header.Set("Content-Type", mediaType)
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	patient := *c.HTTP
	patient.Timeout = 0
	response, err := patient.Do(r)
	if err != nil {
		return nil, c.failed(err)
	}
	return response, nil
}

// registryRefusal reads what the registry says of a request that it did not do. Its errors have OCI's form, those of the gateway before
// it muster's.
func registryRefusal(r *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(r.Body, longestRegistryError))
	var said struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
		wire.Error
	}
	if json.Unmarshal(raw, &said) == nil {
		if said.Error.Error.Code != "" {
			return &said.Error.Error
		}
		if len(said.Errors) > 0 {
			return fmt.Errorf("the registry refuses it: %s: %s", strings.ToLower(said.Errors[0].Code), said.Errors[0].Message)
		}
	}
	return fmt.Errorf("the registry at %s answered with status %d; is this gateway older than this muster? Its path /version says",
		r.Request.URL.Host, r.StatusCode)
}
