package main

import (
	"bufio"
	"io"
	"net"
	"testing"
)

// answering is a connection whose other end answers every request with these bytes and hangs up.
func answering(t *testing.T, text string) *conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	go func() {
		defer theirs.Close()
		_, _ = theirs.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(theirs, text)
	}()
	return &conn{ours, bufio.NewReader(ours)}
}

func TestExchange(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, text string
		status     int
		body       string
		bad        bool
	}{
		{name: "body", text: head + "Content-Length: 3\r\nMuster-Epoch: e\r\nMuster-Answer: p\r\n\r\nabc", status: 200, body: "abc"},
		{name: "no body", text: "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", status: 403},
		{name: "nothing", text: "", bad: true},
		{name: "no length", text: head + "\r\nabc", bad: true},
		{name: "chunks", text: head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", status: 200, body: "abcde"},
		{name: "no chunk", text: head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", status: 200},
		{name: "chunks cut off", text: head + "Transfer-Encoding: chunked\r\n\r\n3\r\nab", bad: true},
		{name: "length -2", text: head + "Content-Length: -2\r\n\r\nabc", bad: true},
		{name: "negative length", text: head + "Content-Length: -3\r\n\r\n", bad: true},
		{name: "huge length", text: head + "Content-Length: 99999999\r\n\r\n", bad: true},
		{name: "length is text", text: head + "Content-Length: x\r\n\r\n", bad: true},
		{name: "status is text", text: "HTTP/1.1 abc\r\n\r\n", bad: true},
		{name: "other protocol", text: "SSH-2.0-OpenSSH_9.2\r\n", bad: true},
		{name: "cut off", text: head + "Content-Length: 30\r\n\r\nabc", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := answering(t, c.text).exchange([]byte("GET / HTTP/1.1\r\n\r\n"))
			if c.bad {
				if err == nil {
					t.Fatalf("got %d %q", a.status, a.body)
				}
				return
			}
			if err != nil || a.status != c.status || string(a.body) != c.body {
				t.Fatalf("got %d %q, %v", a.status, a.body, err)
			}
			if c.name == "body" && (a.epoch != "e" || a.proof != "p") {
				t.Errorf("epoch %q, proof %q", a.epoch, a.proof)
			}
		})
	}
}
