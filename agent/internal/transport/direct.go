package transport

import (
	"bytes"
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

	"muster/agent/wire"
)

// Answer is what came back, believed or not.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	chained bool // over TLS that chains to muster's root
	noCurl  bool // an edge's, and there is no curl to try
}

// direct exchanges through net/http. It keeps one connection alive.
type direct struct {
	client    *Client
	verify    func([]*x509.Certificate) (chained bool, err error)
	transport *http.Transport

	mu       sync.Mutex
	verdicts [4]verdict // of the last handshakes
}

// verdict is what was found out about the connection that showed this leaf.
type verdict struct {
	leaf    *x509.Certificate
	chained bool
}

func newDirect(c *Client, verify func([]*x509.Certificate) (bool, error)) *direct {
	d := &direct{client: c, verify: verify}
	d.transport = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         c.cfg.Dial,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     15 * time.Minute,
		TLSHandshakeTimeout: 15 * time.Second,
		DisableCompression:  true,
		ReadBufferSize:      2 << 10,
		WriteBufferSize:     2 << 10,
		TLSClientConfig: &tls.Config{
			MinVersion:                  tls.VersionTLS12,
			InsecureSkipVerify:          true, // connection below decides
			VerifyConnection:            d.connection,
			GetClientCertificate:        c.clientCertificate,
			DynamicRecordSizingDisabled: true, // a heartbeat of eight GPUs in one record, not in three
		},
	}
	return d
}

// connection judges a handshake. A certificate for another name than the gateway's is the one of an https proxy.
func (d *direct) connection(state tls.ConnectionState) error {
	c := d.client
	if state.ServerName != "" && !strings.EqualFold(state.ServerName, c.base.Hostname()) {
		return verifyChain(state.PeerCertificates, c.cfg.SystemRoots, state.ServerName, c.cfg.Now(), false)
	}
	chained, err := d.verify(state.PeerCertificates)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.chained, c.asked = chained, false
	c.mu.Unlock()
	d.mu.Lock()
	copy(d.verdicts[1:], d.verdicts[:])
	d.verdicts[0] = verdict{leaf: state.PeerCertificates[0], chained: chained}
	d.mu.Unlock()
	return nil
}

func (d *direct) chainedTo(state *tls.ConnectionState) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.verdicts {
		if v.leaf == state.PeerCertificates[0] {
			return v.chained
		}
	}
	return false
}

// exchange sends one request and reads the whole answer. Redirects are answers: following one would sign for another path,
// and let anyone between choose where the node goes.
func (d *direct) exchange(ctx context.Context, method, path string, header http.Header, body []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.client.cfg.Timeout)
	defer cancel()
	var cut atomic.Bool
	var at atomic.Value // the stage that it is in
	at.Store(asking)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:         func(httptrace.DNSStartInfo) { at.Store(lookingUp) },
		DNSDone:          func(httptrace.DNSDoneInfo) { at.Store(connecting) },
		ConnectStart:     func(string, string) { at.Store(connecting) },
		ConnectDone:      func(string, string, error) { at.Store(asking) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { cut.Store(wasCut(err)) },
	})
	r, err := http.NewRequestWithContext(ctx, method, d.client.base.String()+path, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	r.Header = header
	r.Header.Set("User-Agent", "muster-agent/"+d.client.cfg.Version)
	r.Header["Idempotency-Key"] = []string{} // never sent; net/http may repeat the request when an idle connection was gone
	response, err := d.transport.RoundTrip(r)
	if err != nil && cut.Load() {
		return Answer{}, fmt.Errorf("reach %s: %w (%w)", d.client.base.Host, errHandshake, err)
	}
	if err != nil {
		return Answer{}, d.explain(err, at.Load().(stage))
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, wire.MaxBody+1))
	if err != nil && response.StatusCode == http.StatusBadRequest && response.TLS == nil {
		return Answer{}, fmt.Errorf("read the answer of %s: it broke off after HTTP 400: %s (%w)", d.client.base.Host, wantsTLS, err)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer of %s: %w", d.client.base.Host, err)
	}
	if len(content) > wire.MaxBody {
		return Answer{}, fmt.Errorf("the answer of %s is larger than %d bytes: %w", d.client.base.Host, wire.MaxBody, errTooLarge)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: content, chained: d.chainedTo(response.TLS)}, nil
}

var errTooLarge = errors.New("too large")

// errHandshake means that the other side, or something between, ended a TLS handshake that had nothing wrong on this one.
var errHandshake = errors.New("the TLS handshake was cut off: an edge or a firewall between may let only other programs through")

// wasCut reports whether a handshake ended so: by a reset, an end, an alert, or silence.
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

// silent is the error for an exchange whose time is up: who has not answered.
func (c *Client) silent(at stage, err error) error {
	switch at {
	case lookingUp:
		name := &net.DNSError{Err: "no DNS server has answered", Name: c.base.Hostname(), IsTimeout: true}
		return fmt.Errorf("reach %s: no answer to the look-up of its name within %s: %w (%w)", c.base.Host, c.cfg.Timeout, name, err)
	case connecting:
		dial := &net.OpError{Op: "dial", Net: "tcp", Err: err}
		return fmt.Errorf("reach %s: nothing took the connection within %s: %w", c.base.Host, c.cfg.Timeout, dial)
	}
	return fmt.Errorf("reach %s: no answer within %s: %w", c.base.Host, c.cfg.Timeout, err)
}

func (d *direct) explain(err error, at stage) error {
	host := d.client.base.Host
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, ErrUntrusted), errors.Is(err, errDates):
		return err
	case errors.As(err, &record):
		return fmt.Errorf("reach %s: it does not speak TLS on this port; check the port, or use http:// (%w)", host, err)
	case errors.Is(err, context.DeadlineExceeded):
		return d.client.silent(at, err)
	}
	return fmt.Errorf("reach %s: %w", host, err)
}

func (d *direct) close() {
	d.transport.CloseIdleConnections()
}
