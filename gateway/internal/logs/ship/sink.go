package ship

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	pushTime      = 30 * time.Second // for one push, its answer included
	longestAnswer = 16 << 10         // bytes of an answer that are read
	longestHeader = 64 << 10
	longestWords  = 120 // characters of an answer that are shown
)

// pushError says why a sink did not take a push, in words that hold no secret.
type pushError struct {
	text    string
	next    string // what to do
	status  int    // of the answer; 0: there was none
	refused bool   // it will never take these lines
	after   time.Duration
}

// errForbidden is an address to which no push goes.
var errForbidden = errors.New("no push goes to this address")

// sink is where a rule's lines go.
type sink struct {
	url    string
	host   string
	header http.Header
	client *http.Client
}

func newSink(s sealed) (*sink, error) {
	u, err := url.Parse(s.To)
	if err != nil {
		return nil, bad("this is no URL to which logs can go", "write it as https://HOST")
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.Auth.CA != "" {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM([]byte(s.Auth.CA)) {
			return nil, bad("there is no certificate in the file of --sink-ca", "give the root that vouches for the sink, as PEM")
		}
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: guard(s.Tenant != "")}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: settings, ForceAttemptHTTP2: true,
		MaxIdleConns: 4, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: longestHeader, TLSHandshakeTimeout: 10 * time.Second,
	}
	// A redirect is no answer of a Loki, and another host must not get the lines.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &sink{url: s.To, host: u.Host, header: s.header(),
		client: &http.Client{Transport: transport, Timeout: pushTime, CheckRedirect: stay}}, nil
}

// guard refuses addresses that only the gateway's own machine, or its cloud's, can mean. Names may lead there, so the address counts.
func guard(tenant bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return errForbidden
		}
		ip := at.Addr().Unmap()
		if translated.Contains(ip) {
			whole := ip.As16()
			ip = netip.AddrFrom4([4]byte(whole[12:]))
		}
		if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || tenant && ip.IsLoopback() || isCloud(ip) {
			return errForbidden
		}
		return nil
	}
}

// translated are IPv4 addresses behind NAT64 (RFC 6052, section 2.1).
var translated = netip.MustParsePrefix("64:ff9b::/96")

// isCloud reports whether an address is where a cloud tells its machines their secrets, beside the link-local ones.
func isCloud(ip netip.Addr) bool {
	switch ip.String() {
	case "fd00:ec2::254", // Amazon
		"fd20:ce::254",    // Google
		"168.63.129.16",   // Azure
		"100.100.100.200", // Alibaba
		"192.0.0.192":     // Oracle
		return true
	}
	return false
}

func (s *sealed) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "User-Agent": {"muster"}}
	switch a := s.Auth; {
	case a.Basic != "":
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(a.Basic)))
	case a.Bearer != "":
		h.Set("Authorization", "Bearer "+a.Bearer)
	}
	if s.Auth.Org != "" {
		h.Set("X-Scope-OrgID", s.Auth.Org)
	}
	return h
}

func (s *sink) close() { s.client.CloseIdleConnections() }

// push sends one body. nil: the sink has the lines.
func (s *sink) push(ctx context.Context, body []byte) *pushError {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return &pushError{text: "the address of the sink cannot be used", next: "create the rule again with another URL"}
	}
	r.Header = s.header.Clone()
	answer, err := s.client.Do(r)
	if err != nil {
		return s.unreached(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, longestAnswer)) // what is left of a longer one is not read
	return s.judge(answer, said)
}

// judge is nil for 204 alone. Loki answers that for lines that it has, and other numbers, 200 and 260 among them, for lines that it may
// not have.
func (s *sink) judge(answer *http.Response, said []byte) *pushError {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	status := answer.StatusCode
	e := &pushError{text: fmt.Sprintf("%s answered with status %d", s.host, status), status: status,
		next: "look at the log of the sink; the gateway tries again by itself"}
	switch {
	case status == http.StatusNoContent:
		return nil
	case kind == "text/html" || kind == "application/xhtml+xml":
		e.text += " and a page for people"
		e.next = "check the URL: a login page or a proxy stands at this one"
	case status/100 == 2:
		e.text += ", where a Loki that has the lines answers 204"
		e.next = "check the URL; Loki answers 260 where it is told to take no lines"
	case status/100 == 3:
		e.text += ": it sends callers to another place"
		e.next = "give the URL that it moved to; no redirect is followed"
	case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity:
		e.refused = true
		e.text += ": it refuses lines"
		if words := harmless(said); words != "" {
			e.text += ": " + words
		}
		e.next = "see what its words say; those lines are dropped and counted"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.text += ": it does not let the gateway in"
		e.next = "check --auth-file, --bearer-file and --tenant-id"
	case status == http.StatusNotFound || status == http.StatusGone || status == http.StatusMethodNotAllowed:
		e.text += ": nothing takes logs there"
		e.next = "check the path of the URL"
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		e.text += ": it asks to wait"
		e.after = retryAfter(answer.Header.Get("Retry-After"))
		e.next = "raise its limits (ingestion_rate_mb), or lower --rate; the gateway tries again by itself"
	case status/100 == 5:
		e.text += ": it is broken"
	}
	return e
}

// harmless is the beginning of an answer as it may stand in a log or on a terminal.
func harmless(said []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, string(said))
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), longestWords)]
}

// retryAfter reads seconds; 0: there are none.
func retryAfter(text string) time.Duration {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, longest)
}

// unreached says why no answer came.
func (s *sink) unreached(err error) *pushError {
	e := &pushError{text: "no connection to " + s.host, next: "check the URL, and that the gateway's machine reaches it"}
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.Is(err, errForbidden):
		e.text = "the gateway pushes nothing to the address of " + s.host
		e.next = "name a sink that others can reach too: link-local addresses are refused, and loopback ones in a tenant's rule"
	case errors.As(err, &name):
		e.text = "the name of " + s.host + " is not known"
		e.next = "check the host in the URL, and the DNS of the gateway's machine"
	case errors.As(err, &unknown):
		e.text = "the certificate of " + s.host + " is not of an authority that this machine trusts"
		e.next = "give its root with --sink-ca FILE"
	case errors.As(err, &wrongName):
		e.text = "the certificate of " + s.host + " is for another name"
		e.next = "use the name in the certificate"
	case errors.As(err, &invalid):
		e.text = "the certificate of " + s.host + " is not good, or not any more"
		e.next = "renew it there; check the clocks"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.text = fmt.Sprintf("%s gave no answer within %s", s.host, pushTime)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.text = "nothing listens at " + s.host
		e.next = "check the port in the URL, and that the sink runs"
	}
	return e
}
