package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	pullSize   = 64 << 20
	pullTime   = time.Second // of one round: some ten pulls
	pullBudget = 0.9
	pullName   = "bench"
)

// pulls measures how fast the registry sends a blob, beside net/http's file server with the same bytes and the same TLS settings: over TLS,
// and without.
func (m *bench) pulls(t *table) {
	content, digest := randomBytes(pullSize)
	m.must(m.artifacts.Put(m.Context(), pullName, digest, pullSize, bytes.NewReader(content)))
	dir := filepath.Join(m.dir, "files")
	m.must(os.Mkdir(dir, 0o700))
	m.must(os.WriteFile(filepath.Join(dir, "blob"), content, 0o600))
	files := &http.Server{Handler: http.FileServer(http.Dir(dir))}
	m.Cleanup(func() { files.Close() })
	path := "/v2/" + pullName + "/blobs/" + digest
	const without = "the client is in the same process: the sum of both sides is what these cores do"
	secret := m.listenFor(func(l net.Listener) error { return files.Serve(tls.NewListener(l, tlsConfig(m.serving))) })
	p := inTurn(m.pull(m.url()+path), m.pull("https://"+secret+"/blob"))
	t.compare("registry pull over TLS, 64 MiB", " MB/s", p, "net/http's file server", limit{least: pullBudget}, without)
	own := newHandlers(m.gateway)
	plain := own.server(own.network(false, false))
	m.Cleanup(func() { plain.Close() })
	ours := m.listenFor(func(l net.Listener) error { return plain.Serve(m.limiter.Network(l)) })
	theirs := m.listenFor(files.Serve)
	p = inTurn(m.pull("http://"+ours+path), m.pull("http://"+theirs+"/blob"))
	t.compare("registry pull without TLS, 64 MiB", " MB/s", p, "net/http's file server", limit{least: pullBudget}, without)
}

// listenFor serves on a free loopback port until the server is closed, and gives the address.
func (m *bench) listenFor(serve func(net.Listener) error) string {
	m.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	m.must(err)
	go serve(l) // it ends with the server
	return l.Addr().String()
}

// pull makes a measurement of MB per second from a URL, by one client that asks again and again.
func (m *bench) pull(url string) func() float64 {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	m.Cleanup(transport.CloseIdleConnections)
	token := m.passes.PullToken(pullName, time.Hour)
	return func() float64 {
		var total int64
		began := time.Now()
		for time.Since(began) < pullTime {
			r, err := http.NewRequestWithContext(m.Context(), http.MethodGet, url, nil)
			m.must(err)
			if strings.Contains(url, pullName+"/blobs") {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			answer, err := transport.RoundTrip(r)
			m.must(err)
			n, err := io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			m.must(err)
			if answer.StatusCode != http.StatusOK || n != pullSize {
				m.Fatalf("%s: %d, %d bytes", url, answer.StatusCode, n)
			}
			total += n
		}
		return float64(total) / 1e6 / time.Since(began).Seconds()
	}
}
