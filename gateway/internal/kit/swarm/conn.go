package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"muster/agent/wire"
)

const (
	answerTime = 30 * time.Second // for one answer; after it the connection is given up
	maxAnswer  = wire.MaxBody
	inChunks   = -2 // the length of a body that comes in chunks
)

var errAnswer = errors.New("the answer is not HTTP/1.1 with a length or in chunks")

// answer is one response. Its bytes are good until the connection's next exchange.
type answer struct {
	status int
	proof  []byte // Muster-Proof or Muster-Answer
	epoch  []byte
	body   []byte
}

// conn is one keep-alive connection. Requests are bytes that go to the socket as they are: net/http's client would cost more
// than the gateway does. A conn is for one goroutine at a time.
type conn struct {
	net.Conn
	reader *bufio.Reader
	body   []byte
	proof  []byte
	epoch  []byte
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
	return &conn{Conn: c, reader: bufio.NewReaderSize(c, 8<<10)}, nil
}

// exchange sends one request and reads its answer.
func (c *conn) exchange(request []byte) (answer, error) {
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return answer{}, err
	}
	if _, err := c.Write(request); err != nil {
		return answer{}, err
	}
	return c.read()
}

// fetch sends one request and hands the body of a 200 to a writer, whatever its size. Every other answer is read as exchange does.
func (c *conn) fetch(request []byte, to io.Writer, within time.Duration) (a answer, size int64, err error) {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return answer{}, 0, err
	}
	if _, err := c.Write(request); err != nil {
		return answer{}, 0, err
	}
	a, length, err := c.head()
	if err != nil {
		return a, 0, err
	}
	if a.status != http.StatusOK || length < 0 {
		a.body, err = c.content(length)
		return a, 0, err
	}
	size, err = io.CopyN(to, c.reader, int64(length))
	return a, size, err
}

func (c *conn) read() (answer, error) {
	a, length, err := c.head()
	if err != nil || a.status == http.StatusNoContent { // that has neither a body nor a length
		return a, err
	}
	a.body, err = c.content(length)
	return a, err
}

// head reads an answer up to its body. The length is inChunks where it is not said.
func (c *conn) head() (a answer, length int, err error) {
	line, err := c.line()
	if err != nil {
		return answer{}, 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return answer{}, 0, errAnswer
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return answer{}, 0, errAnswer
	}
	length, err = c.header(&a)
	return a, length, err
}

// content reads a body that is small enough for the memory.
func (c *conn) content(length int) ([]byte, error) {
	if length == inChunks {
		return c.chunks()
	}
	if length > maxAnswer {
		return nil, fmt.Errorf("a body of %d bytes: %w", length, errAnswer)
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	body := c.body[:length]
	_, err := io.ReadFull(c.reader, body)
	return body, err
}

// chunks reads a body in chunks. A gateway sends none, a step-ca does.
func (c *conn) chunks() ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(httputil.NewChunkedReader(c.reader), maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("a body of more than %d bytes: %w", maxAnswer, errAnswer)
	}
	last, err := c.line()
	if err == nil && len(last) > 0 {
		err = errAnswer
	}
	return body, err
}

// header reads up to the empty line. It compares names as net/http spells them: only servers written in Go are asked.
func (c *conn) header(a *answer) (length int, err error) {
	length = -1
	for {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "Content-Length":
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return 0, errAnswer
			}
		case "Transfer-Encoding":
			length = inChunks
		case wire.HeaderProof, wire.HeaderAnswer:
			c.proof = append(c.proof[:0], value...)
			a.proof = c.proof
		case wire.HeaderEpoch:
			c.epoch = append(c.epoch[:0], value...)
			a.epoch = c.epoch
		}
	}
	if length < 0 && length != inChunks && a.status != http.StatusNoContent {
		return 0, fmt.Errorf("a body of %d bytes: %w", length, errAnswer)
	}
	return length, nil
}

func (c *conn) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errAnswer
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
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
