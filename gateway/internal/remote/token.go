package remote

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	leastToken = time.Minute      // a token of unknown life has that (distribution specification, token authentication)
	spare      = 20 * time.Second // before its end a token is given to nobody any more
	mostLent   = time.Hour        // a token that lives longer is a static credential: no node gets it
	failedFor  = 10 * time.Second // after a failure nobody asks for a token
	mostToken  = 64 << 10
	mostLeases = 1000
)

// lease is a token, or why there is none. The lock makes all who want one wait for the first who asks.
type lease struct {
	mu     sync.Mutex
	header string // "": the registry wants none
	until  time.Time
	life   time.Duration
	failed error
}

// ask sends a request to the registry itself, with the token that it wants.
func (r *Repository) ask(ctx context.Context, at string, header http.Header) (*http.Response, error) {
	authorization, _, err := r.token(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		request.Header[key] = values
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	return r.client.http.Do(request)
}

// Lend gives the URL of a blob and the header that opens it for a node: a token that ends soon. A registry that knows static credentials
// alone is refused, because a node must not have one.
func (r *Repository) Lend(ctx context.Context, digest string) (at, authorization string, err error) {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	authorization, life, err := r.token(ctx)
	if err != nil {
		return "", "", r.away(err)
	}
	if strings.HasPrefix(authorization, "Basic ") {
		return "", "", r.broken("takes a static credential alone, and nodes get none: use a registry that gives out tokens")
	}
	if life > mostLent {
		return "", "", r.broken("gives out tokens for %s, and nodes get none that live longer than %s", life, mostLent)
	}
	return r.url("blobs", digest), authorization, nil
}

// token is the header that opens the repository now; "": it is open to everybody.
func (r *Repository) token(ctx context.Context) (header string, life time.Duration, err error) {
	l := r.client.lease(r.place())
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.client.now().Before(l.until) {
		return l.header, l.life, l.failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), documentTime) // one caller who hangs up is no failure for the others
	defer cancel()
	l.header, l.life, l.failed = r.login(ctx)
	keep := min(l.life, mostLent) - spare
	if l.failed != nil {
		keep = failedFor
	}
	l.until = r.client.now().Add(keep)
	return l.header, l.life, l.failed
}

// place is where the repository's token is kept. It has all of the credential, so that nobody gets a token of the one before.
func (r *Repository) place() string {
	parts := []string{r.host, r.name, r.credential.Realm, r.credential.Username, r.credential.Password}
	key := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return string(key[:])
}

func (c *Client) lease(key string) *lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens[key] == nil {
		if len(c.tokens) >= mostLeases {
			clear(c.tokens)
		}
		c.tokens[key] = &lease{}
	}
	return c.tokens[key]
}

// login asks the registry what it wants, and gets that.
func (r *Repository) login(ctx context.Context) (header string, life time.Duration, err error) {
	response, err := r.client.plain(ctx, "https://"+r.host+"/v2/")
	if err != nil {
		return "", 0, r.away(err)
	}
	response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return "", leastToken, nil
	}
	if response.StatusCode != http.StatusUnauthorized {
		return "", 0, r.broken("is no registry: it answers with the status %d", response.StatusCode)
	}
	scheme, parameters := challenge(response.Header.Get("Www-Authenticate"))
	switch {
	case scheme == "bearer":
		return r.bearer(ctx, parameters)
	case scheme == "basic" && r.credential.Password != "":
		request := http.Request{Header: http.Header{}}
		request.SetBasicAuth(r.credential.Username, r.credential.Password)
		return request.Header.Get("Authorization"), leastToken, nil
	}
	return "", 0, r.broken("wants a credential")
}

// bearer gets a token, as the distribution specification has it: from the realm, for the service, to pull from the repository.
func (r *Repository) bearer(ctx context.Context, parameters map[string]string) (header string, life time.Duration, err error) {
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Scheme != "https" || realm.Host == "" || realm.User != nil {
		return "", 0, r.broken("names a place for tokens that is no https URL")
	}
	query := realm.Query()
	query.Set("scope", "repository:"+r.name+":pull")
	if service := parameters["service"]; service != "" {
		query.Set("service", service)
	}
	realm.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err != nil {
		return "", 0, err
	}
	if r.credential.Password != "" {
		if realm.Host != r.host && realm.Host != r.credential.Realm {
			return "", 0, r.broken("wants the credential sent to %.80s: store it again with that realm if that is right", realm.Host)
		}
		request.SetBasicAuth(r.credential.Username, r.credential.Password)
	}
	response, err := r.client.http.Do(request)
	if err != nil {
		return "", 0, r.away(err)
	}
	if response, err = r.good(response); err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	return r.readToken(response.Body)
}

func (r *Repository) readToken(from io.Reader) (header string, life time.Duration, err error) {
	text, err := io.ReadAll(io.LimitReader(from, mostToken))
	if err != nil {
		return "", 0, r.away(err)
	}
	var answer struct {
		Token   string `json:"token"`
		Access  string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return "", 0, r.broken("gives a token that is no JSON")
	}
	token := answer.Token
	if token == "" {
		token = answer.Access
	}
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", 0, r.broken("gives no token")
	}
	life = time.Duration(min(max(answer.Seconds, int64(leastToken.Seconds())), 1<<30)) * time.Second
	return "Bearer " + token, life, nil
}

// challenge reads a WWW-Authenticate header with one challenge (RFC 9110 section 11.6.1): the scheme in lower case, and its parameters.
func challenge(header string) (scheme string, parameters map[string]string) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	parameters = map[string]string{}
	for rest != "" {
		name, after, ok := strings.Cut(strings.TrimLeft(rest, " ,"), "=")
		if !ok {
			break
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(after, `"`); isQuoted {
			value, rest, _ = strings.Cut(quoted, `"`)
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		parameters[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
	}
	return strings.ToLower(scheme), parameters
}
