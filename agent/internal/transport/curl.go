package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
)

// curl exchanges through the curl program, for networks that let curl through and not this agent. Such networks tell clients apart by
// their TLS handshake and their User-Agent, so curl keeps its own. Requests are always signed, and only the signature of an answer
// proves it. curl also verifies the gateway's certificate, by this machine's clock.
type curl struct {
	client   *Client
	endpoint *endpoint
	role     role

	mu    sync.Mutex
	works trust // the trust of the fence that let the last exchange through
}

// trust is what a fence believes about the gateway's certificate.
type trust int

const (
	ofGateway trust = iota // muster's own root, for the gateway's host
	ofLocal                // muster's own root, for localhost: every certificate of muster's own carries that name, whatever the host's is
	ofSystem               // what the system trusts, for the gateway's host
	ofNobody               // none: something else proves the gateway
)

// fence is one way of having curl verify the gateway's certificate.
type fence struct {
	trust trust
	roots string // PEM; empty: what curl takes by itself
}

// fences are the ways to verify the gateway here, in the order of trying: what worked last comes first. A node with an identity always
// verifies it.
func (t *curl) fences() []fence {
	c := t.client
	enrolled := c.current()
	c.mu.Lock()
	pinned := c.pinned
	c.mu.Unlock()
	roots := ""
	switch {
	case t.endpoint.base.Scheme == "http":
		return []fence{{trust: ofSystem}}
	case enrolled != nil:
		roots = enrolled.identity.RootsPEM
	case t.role == anyone, t.role == first && !c.cfg.First.NeedTrust:
		return []fence{{trust: ofNobody}}
	case len(pinned) > 0:
		roots = rootsPEM(pinned)
	}
	var list []fence
	if roots != "" {
		list = append(list, fence{trust: ofGateway, roots: roots}, fence{trust: ofLocal, roots: roots})
	}
	list = append(list, fence{trust: ofSystem})
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.IndexFunc(list, func(f fence) bool { return f.trust == t.works }); at > 0 {
		list[0], list[at] = list[at], list[0]
	}
	return list
}

// exchange sends one request and reads the answer. It follows no redirect: see direct.exchange. If a fence refuses the certificate,
// nothing was sent yet, so exchange tries the next fence.
func (t *curl) exchange(ctx context.Context, o *outgoing) (Answer, error) {
	c := t.client
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	program, err := t.endpoint.findCurl(c.cfg.Curl)
	if err != nil {
		return Answer{}, err
	}
	fences := t.fences()
	var said []string
	for _, f := range fences {
		config, err := t.config(ctx, f, o)
		if err != nil {
			return Answer{}, fmt.Errorf("reach %s through curl: %w", t.endpoint.base.Host, err)
		}
		out := invocation{program, curlEnvironment(c.environ()), config, []byte(f.roots), o}.run(ctx)
		answer, err := t.read(ctx, o, out)
		if errors.Is(err, ErrUntrusted) {
			said = appendNew(said, out.says())
			continue
		}
		if err == nil {
			t.mu.Lock()
			t.works = f.trust
			t.mu.Unlock()
		}
		return answer, err
	}
	return Answer{}, t.untrusted(slices.ContainsFunc(fences, func(f fence) bool { return f.trust == ofGateway }), said)
}

func (t *curl) close() {}

// config is what curl reads from its standard input. Nothing of it stands in the arguments, which every user of the machine can read.
func (t *curl) config(ctx context.Context, f fence, o *outgoing) ([]byte, error) {
	url := *t.endpoint.base
	var b curlConfig
	b.flag("silent")
	b.flag("show-error")
	b.flag("globoff")
	b.set("proto", "="+url.Scheme)
	if url.Scheme == "https" {
		b.flag("tlsv1.2")
	}
	b.set("connect-timeout", "15")
	b.set("max-time", fmt.Sprintf("%.3f", limit(ctx).Seconds()))
	b.set("dump-header", headersFile)
	switch {
	case f.trust == ofNobody:
		b.flag("insecure")
	case f.roots != "":
		b.set("cacert", rootsFile)
		b.set("capath", noRoots)
	}
	if f.trust == ofLocal {
		b.set("connect-to", "::"+hostPort(t.endpoint.base))
		b.header("Host", t.endpoint.base.Host)
		url.Host = "localhost:" + port(t.endpoint.base)
	}
	b.request(o.method(), url.String()+o.Path)
	if o.Kind != "" {
		b.body()
	}
	b.headers(o.header)
	return b.done()
}

// limit is curl's own limit of time. It is a little less than the time that is left, so that curl ends by itself and says where it was.
func limit(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return DefaultTimeout
	}
	return max(time.Until(deadline)*19/20, time.Millisecond)
}

// read turns what a run of curl left behind into an answer or an error.
func (t *curl) read(ctx context.Context, o *outgoing, out outcome) (Answer, error) {
	host := t.endpoint.base.Host
	switch {
	case errors.Is(out.err, errKeep):
		return Answer{}, fmt.Errorf("read the answer of %s: %w", host, out.err)
	case errors.Is(out.err, errTooLarge):
		return Answer{}, fmt.Errorf("the answer of %s is %w", host, out.err)
	case out.err != nil && ctx.Err() == nil:
		return Answer{}, fmt.Errorf("reach %s through curl: %w", host, out.err)
	case out.code != 0 || ctx.Err() != nil:
		return Answer{}, t.explain(ctx, out, o.Timeout)
	case out.answer.Status == 0:
		return Answer{}, fmt.Errorf("reach %s through curl: %w", host, errNoHTTP)
	}
	return out.answer, nil
}

// environ is the environment from which curlEnvironment takes out what curl must not have.
func (c *Client) environ() []string {
	if c.cfg.Environ != nil {
		return c.cfg.Environ
	}
	return os.Environ()
}

// curlEnvironment is env without muster's variables, which may hold a token, and without SSLKEYLOGFILE, which makes curl write down
// session keys. Go also reads HTTP_PROXY in capitals, and curl reads only http_proxy.
func curlEnvironment(env []string) []string {
	kept := make([]string, 0, len(env)+1)
	capitals := ""
	small := false
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case strings.HasPrefix(name, wire.EnvPrefix), name == "SSLKEYLOGFILE":
			continue
		case name == "HTTP_PROXY":
			capitals = value
		case name == "http_proxy":
			small = true
		}
		kept = append(kept, pair)
	}
	if capitals != "" && !small {
		kept = append(kept, "http_proxy="+capitals)
	}
	return kept
}
