// Package transport carries requests from a node to its gateway and says which answers may be believed.
//
// Every request proves the node's key: by the client certificate if the gateway's own TLS reaches this machine, else by a signature (RFC
// 9421). Every answer has to be proven too: by the gateway's signature over it, or by a TLS chain to the root that was pinned at enrolment.
// A network may put something between the two: an edge, a captive portal, a proxy. What these say never changes the clock, the pace or the
// identity, and never counts as a refusal.
//
// Call and Do check the proof before they return, so the Answer and the Refusal that they give are proven. Of a Download the head is proven
// before anything is written: its caller checks the bytes.
//
// Connections and calls belong to one identity. Client.Use changes it, and says what becomes of them.
package transport

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"muster/agent/sign"
)

// DefaultTimeout bounds one exchange, connecting included.
const DefaultTimeout = 30 * time.Second

// Config says where the gateway is and what to believe before a node has an identity.
type Config struct {
	Gateway     string           // the gateway's URL, http or https, without a path
	Version     string           // of this agent
	First       FirstContact     // rules before enrolment
	Timeout     time.Duration    // of one exchange; 0: DefaultTimeout
	Now         func() time.Time // nil: time.Now
	Logger      *slog.Logger     // nil: none
	SystemRoots *x509.CertPool   // nil: what the system trusts
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)

	Way     Way      // empty: Direct, the one that SystemRoots and Dial are for
	Curl    string   // the program; empty: curl, as found on the PATH
	Environ []string // that curl inherits, less MUSTER_*; nil: this process's
}

// FirstContact says what the gateway's TLS has to show before enrolment. A token's handshake proves the gateway by itself. A pre-shared
// key is known to every node, so with one the certificate has to prove the gateway.
type FirstContact struct {
	NeedTrust bool // the certificate has to be trusted by the system or by a pin
	Pins      Pins // of muster's roots; nil: none known
}

// Identity is what a node proves itself by, and what proves its gateway.
type Identity struct {
	Certificate tls.Certificate // with its Leaf
	Signer      sign.Signer
	Roots       *x509.CertPool      // muster's, pinned at enrolment
	RootsPEM    string              // the same in PEM, for curl; empty: curl believes the system's roots alone
	AnswerKeys  []ed25519.PublicKey // any of them proves an answer

	Home     string   // URL of the gateway that the node has joined
	Gateways []string // URLs of all gateways, as wire.Gateways gives them; nil: only the client's own is known
	Last     string   // the one of them to begin with, for a client of Home; empty: the client's own
}

// Client talks to one gateway, or to one of several that lead to the same one. It is safe for concurrent use.
type Client struct {
	cfg      Config
	base     *url.URL  // of the gateway that it was made for
	endpoint *endpoint // to that one, for calls that need no identity before there is one

	using sync.Mutex // one change of the identity at a time

	mu       sync.Mutex
	others   []string            // URLs of all gateways
	tenure   *tenure             // of the identity in use; nil: none yet
	changing chan struct{}       // closed when the next tenure is there; nil: the one that is there stays
	pinned   []*x509.Certificate // the roots behind the pins, once seen
	epoch    string
	offset   time.Duration
	route    route
}

// New checks the URL and makes a client. Nothing is sent yet.
func New(cfg Config) (*Client, error) {
	base, err := parseGateway(cfg.Gateway)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Curl = cmp.Or(cfg.Curl, "curl")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	c := &Client{cfg: cfg, base: base}
	c.endpoint = c.newEndpoint(base, nil)
	return c, nil
}

// parseGateway accepts scheme, host and port alone. Signatures cover the path, so a proxy that strips one would break them. A password
// would end in logs.
func parseGateway(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("no gateway given: add --gateway https://HOST:7443")
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the gateway is a URL such as https://HOST:7443")
	case u.User != nil:
		return nil, errors.New("the gateway's URL carries a user or a password: leave them out, a token goes into MUSTER_TOKEN")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the gateway's URL carries a path: give its scheme, host and port only")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// Gateway returns the URL that the client was made for.
func (c *Client) Gateway() string { return c.base.String() }

// Close closes the connections that nobody uses. The client stays usable.
func (c *Client) Close() {
	c.endpoint.close()
	if t := c.current(); t != nil {
		c.at(t).close()
	}
}

// Mode says how the node proves itself now: mtls, signed, or curl (signed, and sent through curl).
func (c *Client) Mode() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cfg.Way == Curl || c.route.curl:
		return "curl"
	case c.tenure != nil && c.tenure.endpoint.mutual:
		return "mtls"
	}
	return "signed"
}

// current is the tenure of the identity in use, nil before there is one.
func (c *Client) current() *tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tenure
}
