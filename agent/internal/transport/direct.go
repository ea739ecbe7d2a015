package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Answer is what came back. Do and Register say whether it is proven.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	chained  bool // over TLS that chains to muster's root
	noCurl   bool // it comes from an edge, and there is no curl to try
	streamed bool // its head was good, and its body went to the Download
}

// direct exchanges through net/http. It keeps few idle connections open. It is safe for concurrent use.
type direct struct {
	client    *Client
	endpoint  *endpoint
	tenure    *tenure // whose connections these are; nil: nobody's, so that no certificate is shown
	verify    func([]*x509.Certificate) (chained bool, err error)
	transport *http.Transport

	mu   sync.Mutex
	last verdict
}

// verdict is what a handshake found out about the server's leaf. crypto/tls parses a leaf once and shares it among the connections
// that show it, so its address names it.
type verdict struct {
	leaf    *x509.Certificate
	chained bool
}

func newDirect(c *Client, at *endpoint, t *tenure, verify func([]*x509.Certificate) (bool, error)) *direct {
	d := &direct{client: c, endpoint: at, tenure: t, verify: verify}
	dial := c.cfg.Dial
	if t != nil {
		dial = t.lines.dialer(dial)
	}
	d.transport = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		MaxIdleConnsPerHost: 128, // those of a session that forwards; without sessions they are closed
		IdleConnTimeout:     15 * time.Minute,
		TLSHandshakeTimeout: 15 * time.Second,
		DisableCompression:  true,
		ReadBufferSize:      2 << 10,
		WriteBufferSize:     2 << 10,

		MaxResponseHeaderBytes: maxHeaders,
		TLSClientConfig: &tls.Config{
			MinVersion:                  tls.VersionTLS12,
			InsecureSkipVerify:          true, // judge below decides
			VerifyConnection:            d.judge,
			GetClientCertificate:        d.clientCertificate,
			DynamicRecordSizingDisabled: true, // a heartbeat of eight GPUs in one record, not in three
		},
	}
	return d
}

// judge looks at a handshake. A handshake for another name than the gateway's is one with an https proxy.
func (d *direct) judge(state tls.ConnectionState) error {
	c := d.client
	if state.ServerName != "" && !strings.EqualFold(state.ServerName, d.endpoint.base.Hostname()) {
		return verifyChain(state.PeerCertificates, c.cfg.SystemRoots, state.ServerName, c.cfg.Now(), false)
	}
	chained, err := d.verify(state.PeerCertificates)
	if err != nil {
		return err
	}
	if d.tenure != nil {
		c.mu.Lock()
		d.endpoint.chained = chained
		d.endpoint.asked = false
		c.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = verdict{leaf: state.PeerCertificates[0], chained: chained}
	return nil
}

// chainedTo reports whether the connection of an answer chained to muster's root. net/http does not say on which of its connections an
// answer came, but the answer's TLS state has the very leaf that judge has seen. A connection of another leaf than the last one, which may
// still be at work, is judged once more.
func (d *direct) chainedTo(state *tls.ConnectionState) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	d.mu.Lock()
	last := d.last
	d.mu.Unlock()
	if last.leaf == state.PeerCertificates[0] {
		return last.chained
	}
	chained, err := d.verify(state.PeerCertificates)
	return err == nil && chained
}

// clientCertificate answers a server that asks for a certificate. A server that does not chain to muster's root gets none: it could do
// nothing with the certificate but learn which node this is.
func (d *direct) clientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c := d.client
	t := d.tenure
	c.mu.Lock()
	defer c.mu.Unlock()
	if t == nil || !d.endpoint.chained {
		return &tls.Certificate{}, nil
	}
	d.endpoint.asked = true
	return &t.identity.Certificate, nil
}

// exchange sends one request and reads the answer. It follows no redirect, because the signature is for this path alone, and because
// anybody between could choose where the node goes.
func (d *direct) exchange(ctx context.Context, o *outgoing) (Answer, error) {
	host := d.endpoint.base.Host
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	var cut atomic.Bool
	var at atomic.Value // the stage of the exchange
	at.Store(asking)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:         func(httptrace.DNSStartInfo) { at.Store(lookingUp) },
		DNSDone:          func(httptrace.DNSDoneInfo) { at.Store(connecting) },
		ConnectStart:     func(string, string) { at.Store(connecting) },
		ConnectDone:      func(string, string, error) { at.Store(asking) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { cut.Store(wasCut(err)) },
	})
	loan := newLoan()
	defer loan.end()
	r, err := d.request(ctx, o, loan)
	if err != nil {
		return Answer{}, err
	}
	response, err := d.transport.RoundTrip(r)
	if err != nil && cut.Load() {
		return Answer{}, fmt.Errorf("reach %s: %w (%w)", host, errHandshake, err)
	}
	if err != nil {
		return Answer{}, d.explain(err, at.Load().(stage), o.Timeout)
	}
	defer response.Body.Close()
	// From here on net/http has an answer. What fails now broke off in its body.
	a := Answer{Status: response.StatusCode, Header: response.Header, chained: d.chainedTo(response.TLS)}
	if a.Status == http.StatusSwitchingProtocols { // its body is the connection, which ends with no context
		return a, nil
	}
	err = o.take(&a, response.Body, response.ContentLength)
	switch {
	case err != nil && response.StatusCode == http.StatusBadRequest && response.TLS == nil:
		return Answer{}, fmt.Errorf("read the answer of %s: it broke off after HTTP 400: %s (%w)", host, wantsTLS, err)
	case errors.Is(err, errTooLarge):
		return Answer{}, fmt.Errorf("the answer of %s is %w", host, err)
	case err != nil:
		return Answer{}, fmt.Errorf("read the answer of %s: %w", host, err)
	}
	return a, nil
}

func (d *direct) request(ctx context.Context, o *outgoing, loan *loan) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, o.method(), d.endpoint.base.String()+o.Path, loan.of(o.Body))
	if err != nil {
		return nil, err
	}
	r.Header = o.header
	r.Header.Set("User-Agent", "muster-agent/"+d.client.cfg.Version)
	r.Header["Idempotency-Key"] = []string{} // never sent; net/http may repeat the request when an idle connection was gone
	if o.Kind == "" {
		r.Body = http.NoBody
		return r, nil
	}
	r.ContentLength = int64(len(o.Body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(loan.of(o.Body)), nil }
	return r, nil
}

var errTooLarge = errors.New("too large")

// errHandshake means that the other side, or something between, ended a TLS handshake that had nothing wrong on this one.
var errHandshake = errors.New("the TLS handshake was cut off: an edge or a firewall between may let only other programs through")

// wasCut reports whether the other side ended a handshake: by a reset, by closing, by an alert, or by silence.
func wasCut(err error) bool {
	var operation *net.OpError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &operation) && operation.Op == "remote error":
		return true
	}
	return errors.As(err, &network) && network.Timeout()
}

// stage is how far an exchange has come.
type stage int

const (
	lookingUp  stage = iota // the name
	connecting              // to one of its addresses
	asking                  // for TLS and for an answer
)

// silent is the error for an exchange whose time is up. It says who has not answered.
func (d *endpoint) silent(at stage, within time.Duration, err error) error {
	switch at {
	case lookingUp:
		name := &net.DNSError{Err: "no DNS server has answered", Name: d.base.Hostname(), IsTimeout: true}
		return fmt.Errorf("reach %s: no answer to the look-up of its name within %s: %w (%w)", d.base.Host, within, name, err)
	case connecting:
		dial := &net.OpError{Op: "dial", Net: "tcp", Err: err}
		return fmt.Errorf("reach %s: nothing took the connection within %s: %w", d.base.Host, within, dial)
	}
	return fmt.Errorf("reach %s: no answer within %s: %w", d.base.Host, within, err)
}

func (d *direct) explain(err error, at stage, within time.Duration) error {
	host := d.endpoint.base.Host
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, ErrUntrusted), errors.Is(err, errDates):
		return err
	case errors.As(err, &record):
		return fmt.Errorf("reach %s: it does not speak TLS on this port; check the port, or use http:// (%w)", host, err)
	case errors.Is(err, context.DeadlineExceeded):
		return d.endpoint.silent(at, within, err)
	}
	return fmt.Errorf("reach %s: %w", host, err)
}

func (d *direct) close() {
	d.transport.CloseIdleConnections()
}
