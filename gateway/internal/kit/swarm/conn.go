package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"muster/agent/wire"
)

const (
	answerTime = 30 * time.Second // for one answer; after it the connection is given up
	maxAnswer  = wire.MaxBody
)

// answer is one response.
type answer struct {
	status int
	proof  string // Muster-Proof or Muster-Answer
	epoch  string
	body   []byte
}

// conn is one keep-alive connection. Requests are bytes that go to the socket as they are: net/http's client would cost more
// than the gateway does. A conn is for one goroutine at a time.
type conn struct {
	net.Conn
	reader *bufio.Reader
}

// dialer opens connections to the one gateway.
type dialer struct {
	address string
	host    string
	from    net.Addr    // the address on this side; nil: the system chooses
	tls     *tls.Config // nil: without TLS
}

// dial connects, with a client certificate where one is given.
func (d dialer) dial(ctx context.Context, certificate *tls.Certificate) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	netDialer := net.Dialer{LocalAddr: d.from}
	c, err := netDialer.DialContext(ctx, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		config := d.tls.Clone()
		if certificate != nil {
			config.Certificates = []tls.Certificate{*certificate}
		}
		secure := tls.Client(c, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, err
		}
		c = secure
	}
	return &conn{c, bufio.NewReaderSize(c, 8<<10)}, nil
}

// exchange sends one request and reads its answer.
func (c *conn) exchange(request []byte) (answer, error) { return c.ask(request, answerTime) }

// ask is exchange with another time for the answer.
func (c *conn) ask(request []byte, within time.Duration) (answer, error) {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return answer{}, err
	}
	if _, err := c.Write(request); err != nil {
		return answer{}, err
	}
	return c.read()
}

func (c *conn) read() (answer, error) {
	r, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return answer{}, err
	}
	defer r.Body.Close()
	if r.ContentLength > maxAnswer || r.ContentLength < 0 && len(r.TransferEncoding) == 0 {
		return answer{}, fmt.Errorf("an answer with a body of %d bytes", r.ContentLength)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	return answer{r.StatusCode, cmp.Or(r.Header.Get(wire.HeaderProof), r.Header.Get(wire.HeaderAnswer)), r.Header.Get(wire.HeaderEpoch), body}, err
}

// appendHead begins a POST of a JSON body.
func appendHead(b []byte, host, path string, length int) []byte {
	b = append(b, "POST "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\nUser-Agent: muster-swarm\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	return append(b, "\r\n"...)
}
