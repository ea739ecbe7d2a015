package build

// This file reads from OCI registries that somebody else runs, and lends nodes short-lived tokens for them.
//
// Such a registry is not trusted: all that it gives is bounded in time and size, and whoever asks checks the digests. A credential goes to
// its own registry, and to the host that the operator has named for tokens, over https alone, and follows no redirect.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/httpserver/post"
)

const (
	answerTime   = 15 * time.Second // until the header of an answer
	documentTime = 30 * time.Second // for a manifest or a token
	blobTime     = 10 * time.Minute // for a layer
	mostHops     = 3                // redirects of a layer
)

// Credential opens another registry. Only the gateway uses it; nodes get tokens that live for minutes.
type Credential struct {
	Name     string `json:"name"`
	Host     string `json:"host"`            // of the registry
	Realm    string `json:"realm,omitempty"` // host that gives out its tokens, where that is another one
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"` // is not shown again
}

// RemoteConfig says how registries are reached.
type RemoteConfig struct {
	Transport http.RoundTripper                                      // nil: one of its own
	Control   func(network, address string, _ syscall.RawConn) error // refuses addresses; nil: none
	Direct    bool                                                   // through no proxy, so that Control sees each address itself
	Now       func() time.Time
}

// Remote keeps tokens until they end. It is safe for concurrent use.
type Remote struct {
	http *http.Client
	now  func() time.Time

	mu     sync.Mutex
	tokens map[string]*lease
}

// NewRemote makes a Remote.
func NewRemote(c RemoteConfig) *Remote {
	if c.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = answerTime
		if c.Direct {
			t.Proxy = nil
		}
		if c.Control != nil {
			t.DialContext = (&net.Dialer{Timeout: answerTime, Control: c.Control}).DialContext
		}
		c.Transport = t
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Remote{http: &http.Client{Transport: c.Transport, CheckRedirect: stay}, now: c.Now, tokens: map[string]*lease{}}
}

// Repository is one repository of a registry.
type Repository struct {
	client     *Remote
	host, name string
	credential Credential
}

// IsHost reports whether a text is a host with or without a port, in the form in which it stands in a URL.
func IsHost(host string) bool {
	u, err := url.Parse("https://" + host)
	return err == nil && host != "" && u.Host == host && u.Hostname() != "" && !strings.ContainsAny(host, " /?#@\\%")
}

// Repository names a repository, host/repository. A credential is for its host alone.
func (c *Remote) Repository(reference string, credential Credential) (*Repository, error) {
	host, name, _ := strings.Cut(reference, "/")
	if !IsHost(host) || !goodName(name) {
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.120q is no repository elsewhere", reference), "write host/team/agent")
	}
	if credential.Password != "" && credential.Host != host {
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the credential %s is for %s, and the repository is on %s",
			credential.Name, credential.Host, host), "store one for that host")
	}
	return &Repository{client: c, host: host, name: name, credential: credential}, nil
}

// goodName accepts what the distribution specification allows in a repository's name, and nothing that means more in a URL.
func goodName(name string) bool {
	if name == "" || len(name) > 255 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" || strings.Trim(part, ".") == "" {
			return false
		}
	}
	return true
}

func (r *Repository) url(kind, digest string) string {
	return "https://" + r.host + "/v2/" + r.name + "/" + kind + "/" + digest
}

// Manifest reads an index or a manifest by its digest, or by a tag. The caller checks the digest.
func (r *Repository) Manifest(ctx context.Context, reference string) (mediaType string, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	header := http.Header{"Accept": {strings.Join([]string{wire.MediaIndex, wire.MediaManifest,
		"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json"}, ", ")}}
	response, err := r.get(ctx, r.url("manifests", reference), header)
	if err != nil {
		return "", nil, err
	}
	defer response.Body.Close()
	mediaType, _, _ = strings.Cut(response.Header.Get("Content-Type"), ";")
	mediaType = strings.TrimSpace(mediaType)
	if !strings.HasSuffix(mediaType, "json") {
		return "", nil, r.broken("answers with %.60q instead of a manifest", mediaType)
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, mostManifest+1))
	if err != nil {
		return "", nil, r.away(err)
	}
	if len(body) > mostManifest {
		return "", nil, r.broken("gives a manifest of more than %d bytes", mostManifest)
	}
	return mediaType, body, nil
}

// Tag returns the digest that a tag stands for now: the digest of the index if there are several platforms.
func (r *Repository) Tag(ctx context.Context, tag string) (digest string, err error) {
	_, body, err := r.Manifest(ctx, tag)
	if err != nil {
		return "", err
	}
	return artifact.DigestOf(body), nil
}

// Blob opens a blob. It follows redirects, as registries send them for layers, without the credential. The caller checks the digest.
func (r *Repository) Blob(ctx context.Context, digest string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, blobTime)
	response, err := r.follow(ctx, digest)
	if err != nil {
		cancel()
		return nil, err
	}
	return &body{response.Body, r, cancel}, nil
}

func (r *Repository) follow(ctx context.Context, digest string) (*http.Response, error) {
	at := r.url("blobs", digest)
	response, err := r.ask(ctx, at, nil)
	for hop := 0; err == nil && redirects(response.StatusCode); hop++ {
		response.Body.Close()
		next, failed := response.Location()
		if failed != nil || next.Scheme != "https" || hop == mostHops {
			return nil, r.broken("sends a layer's reader on to a place that is not followed")
		}
		response, err = r.client.plain(ctx, next.String())
	}
	if err != nil {
		return nil, r.away(err)
	}
	return r.good(response)
}

// plain asks without any credential.
func (c *Remote) plain(ctx context.Context, at string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	return c.http.Do(request)
}

func redirects(status int) bool { return status >= 300 && status < 400 }

// get asks for a document, which no registry sends readers on for.
func (r *Repository) get(ctx context.Context, at string, header http.Header) (*http.Response, error) {
	response, err := r.ask(ctx, at, header)
	if err != nil {
		return nil, r.away(err)
	}
	return r.good(response)
}

// good passes on an answer with content, and says what is wrong with any other.
func (r *Repository) good(response *http.Response) (*http.Response, error) {
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	response.Body.Close()
	switch {
	case redirects(response.StatusCode):
		return nil, r.broken("sends the reader on to another place, which is not followed")
	case response.StatusCode == http.StatusNotFound:
		return nil, r.refusal("has no such content in "+r.name, "check the repository and the digest: what is named must be pushed there first")
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		return nil, r.closed("does not let the gateway read " + r.name)
	case response.StatusCode == http.StatusTooManyRequests, response.StatusCode >= http.StatusInternalServerError:
		return nil, r.refusal(fmt.Sprintf("answers with the status %d", response.StatusCode),
			"it has trouble of its own, or takes no more requests for now: try again later")
	}
	return nil, r.broken("answers with the status %d", response.StatusCode)
}

// closed is a refusal of a registry that wants a credential, or another one.
func (r *Repository) closed(what string) error {
	if r.credential.Password == "" {
		return wanted{r.refusal(what, "store a credential that may read it: muster release login NAME "+r.host+"; then add --credential NAME")}
	}
	return r.refusal(what, "the credential "+r.credential.Name+" is wrong, has ended, or may not read it: muster release login "+
		r.credential.Name+" "+r.host+" stores another")
}

// wanted is a refusal of a registry that was asked without a credential.
type wanted struct{ error }

func (w wanted) Unwrap() error { return w.error }

// WantsCredential reports whether a registry refused only because it was asked without a credential.
func WantsCredential(err error) bool {
	_, ok := errors.AsType[wanted](err)
	return ok
}

// broken is a refusal about what no registry should do.
func (r *Repository) broken(format string, args ...any) error {
	return r.refusal(fmt.Sprintf(format, args...), "see what answers there: something between, a page to log in, or no OCI registry at all")
}

func (r *Repository) refusal(what, hint string) error {
	return wire.Refuse(wire.CodeReleaseUnusable, "the registry "+r.host+" "+what, hint)
}

// away is a refusal about a registry that does not answer. The error's text may have a URL with a token: it is not passed on.
func (r *Repository) away(err error) error {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return err
	}
	why := "cannot be reached"
	var late net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() {
		why = "does not answer in time"
	}
	if post.IsForbidden(err) {
		return r.refusal("is at an address that the gateway does not ask, or leads there", "an operator of all tenants may name it")
	}
	return &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "the registry " + r.host + " " + why, Hint: "try again", RetrySeconds: 30}
}

// body is a blob on its way.
type body struct {
	io.ReadCloser
	from   *Repository
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.from.away(err)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
