// Package peer is what gateways on one store say to each other. A gateway that stands by passes the connections of nodes and operators to
// the active one, byte by byte: TLS ends there alone, and a client's certificate stays its own. The two gateways prove themselves to each
// other with certificates of muster's own CA, under a name that no node's certificate has.
package peer

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"muster/gateway/internal/artifact"
)

// Kinds of connections, by the listener that they came to.
const (
	TLS    = "tls"
	Plain  = "plain"
	Socket = "socket"

	// These are no caller's.
	hello = "hello" // a gateway that stands by says that it does
	keeps = "keep"  // a copy of a blob follows
	gives = "give"  // a copy of a blob is asked for
	notes = "notes" // minutes of the history follow
)

const (
	// connectTime is for a connection between gateways until it passes bytes.
	connectTime = 3 * time.Second
	// mostHeader bounds what stands before the bytes, in bytes.
	mostHeader = 1 << 10
)

// Identity is what a gateway proves itself with to the others now.
type Identity struct {
	ID          string // of this gateway
	Domain      string // trust domain
	Certificate *tls.Certificate
	Roots       []*x509.Certificate
}

// URI returns the SPIFFE id of a gateway.
func URI(domain, id string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: domain, Path: "/gateway/" + id}
}

// config is for both ends of a connection. gateway gets the other one's id.
func (i Identity) config(gateway func(id string) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*i.Certificate}, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection verifies: a gateway has no host name, but an id
		VerifyConnection: func(s tls.ConnectionState) error {
			id, err := i.verify(s.PeerCertificates)
			if err != nil {
				return err
			}
			return gateway(id)
		},
		SessionTicketsDisabled: true,
	}
}

// verify gives the id of the gateway whose chain it is.
func (i Identity) verify(chain []*x509.Certificate) (string, error) {
	if len(chain) == 0 {
		return "", errors.New("the other gateway shows no certificate")
	}
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, root := range i.Roots {
		o.Roots.AddCert(root)
	}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(o); err != nil {
		return "", err
	}
	if len(chain[0].URIs) == 1 {
		if id, ok := strings.CutPrefix(chain[0].URIs[0].String(), URI(i.Domain, "").String()); ok && id != "" {
			return id, nil
		}
	}
	return "", errors.New("the certificate is no gateway's")
}

// header stands before the bytes of a connection, as a line of JSON.
type header struct {
	Kind    string         `json:"kind"`
	Address string         `json:"address,omitempty"` // of the caller, as the gateway that stands by saw it
	Hello   *Hello         `json:"hello,omitempty"`
	Blob    *artifact.Info `json:"blob,omitempty"`
}

// Hello is what a gateway that stands by says of itself.
type Hello struct {
	URL     string    `json:"url"`             // where other gateways reach it
	Nodes   string    `json:"nodes,omitempty"` // where nodes reach it; empty: nobody gave a URL
	Version string    `json:"version"`
	At      time.Time `json:"at"`                // its clock
	Refuses string    `json:"refuses,omitempty"` // why it would not take over
}

func readHeader(c net.Conn) (h header, rest *bufio.Reader, err error) {
	rest = bufio.NewReaderSize(c, mostHeader)
	line, err := rest.ReadSlice('\n')
	if err != nil {
		return h, nil, fmt.Errorf("the header of a passed connection: %w", err)
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, nil, fmt.Errorf("the header of a passed connection: %w", err)
	}
	return h, rest, nil
}

// Conn is a connection that another gateway passes on.
type Conn struct {
	net.Conn
	rest    *bufio.Reader
	address net.Addr
	Gateway string // that passes it
	own     bool   // that gateway has this one's id
	self    bool   // it shows this one's certificate
}

// Read reads what the caller sends.
func (c *Conn) Read(p []byte) (int, error) { return c.rest.Read(p) }

// RemoteAddr returns the caller's address, as the other gateway saw it. If the caller used that gateway's socket, it is a SocketAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.address }

// LocalAddr returns the address that the caller called. If the caller used the other gateway's socket, it is a SocketAddr.
func (c *Conn) LocalAddr() net.Addr {
	if at, ok := c.address.(SocketAddr); ok {
		return at
	}
	return c.Conn.LocalAddr()
}

// SocketAddr is the address of an operator on the socket of another gateway: the id of that gateway.
type SocketAddr string

// Network returns "gateway". Package account, which says who called, recognises a SocketAddr by this.
func (a SocketAddr) Network() string { return "gateway" }

// String returns what the audit says of it.
func (a SocketAddr) String() string { return "socket of " + string(a) }

// CloseWrite ends what is sent to the caller.
func (c *Conn) CloseWrite() error { return c.Conn.(*tls.Conn).CloseWrite() }
