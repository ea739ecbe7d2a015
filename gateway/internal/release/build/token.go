package build

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
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

// Lend returns the URL of a blob and the header that opens it for a node: a token that ends soon. It refuses a registry that knows only
// lasting credentials, because a node must not have one.
func (r *Repository) Lend(ctx context.Context, digest string) (at, authorization string, err error) {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	authorization, life, err := r.token(ctx)
	if err != nil {
		return "", "", r.away(err)
	}
	if strings.HasPrefix(authorization, "Basic ") {
		return "", "", r.refusal("takes a static credential alone, and nodes get none", "use a registry that gives out tokens")
	}
	if life > mostLent {
		return "", "", r.refusal(fmt.Sprintf("gives out tokens for %s, and nodes get none that live longer than %s", life, mostLent),
			"have the registry give out shorter ones")
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

func (c *Remote) lease(key string) *lease {
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
	return "", 0, r.closed("wants a credential")
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
			return "", 0, r.refusal(fmt.Sprintf("wants the credential sent to %.80s", realm.Host),
				"if that is right, store it again with that host: muster release login "+r.credential.Name+" "+r.host+" --realm HOST")
		}
		request.SetBasicAuth(r.credential.Username, r.credential.Password)
	}
	response, err := r.client.http.Do(request)
	if err != nil {
		return "", 0, r.away(err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return r.readToken(response.Body)
	case http.StatusNotFound: // it is about the place for tokens, and not about what lies in the repository
		return "", 0, r.broken("names a place for tokens that is not there")
	}
	_, err = r.good(response)
	return "", 0, err
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
