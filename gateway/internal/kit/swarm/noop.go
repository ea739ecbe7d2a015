package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// serveNoop is the server that heartbeats are compared with: net/http with TLS settings like the gateway's, and a handler that
// reads the body and does nothing. It writes its URL to out and serves until ctx ends.
func serveNoop(ctx context.Context, address string, out io.Writer) error {
	certificate, err := noopCertificate()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body) // a client that hangs up is the client's loss
			_, _ = io.WriteString(w, "{}\n")
		}),
		ErrorLog: log.New(io.Discard, "", 0), // clients hang up as they like
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	fmt.Fprintln(out, "https://"+listener.Addr().String())
	err = server.Serve(tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		Certificates: []tls.Certificate{certificate},
	}))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// noopCertificate has a P-256 key, as the gateway's own certificate has: handshakes cost the same on both sides.
func noopCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "no-op"}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
