package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/httpserver"
)

const (
	siegeSize  = 15_000
	raceSize   = 1_500 // the race detector takes 8,128 goroutines and no more
	siegeTime  = 5 * time.Second
	siegePause = 3 * time.Second // before a besieger that was closed comes again
	keptBack   = 1_500           // descriptors of this process that besiegers do not get
)

// besieger is one way to hold a connection and give nothing for it.
type besieger struct {
	secret bool   // to the listener with TLS
	text   string // sent at once
	drip   string // sent now and then
}

var besiegers = []besieger{
	{secret: true},
	{secret: true, text: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", drip: "a"},
	{},
	{text: "GET /heal"},
	{text: "GET /healthz HTTP/1.1\r\nHost: x\r\n", drip: "A: b\r\n"},
	{text: "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nAuthorization: Muster credential=\"mse_AAAAAAAAAAAA\", mac=\"x\"\r\n\r\n"},
	{text: "POST /nodes/register HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", drip: "{"},
	{text: strings.Repeat("GET /agent/linux/amd64 HTTP/1.1\r\nHost: x\r\n\r\n", 20)},
}

// siege is many besiegers at work.
type siege struct {
	secret, plain  string
	stop           chan struct{}
	work           sync.WaitGroup
	opened, closed atomic.Int64
}

// besiege opens number connections from many addresses, and each again when it is closed. Nodes of the swarm have addresses of their
// own: 127.1.0.1 and up.
func besiege(h *house, number int) *siege {
	s := &siege{secret: strings.TrimPrefix(h.url, "https://"), plain: strings.TrimPrefix(h.plain(), "http://"), stop: make(chan struct{})}
	const crews = 50
	for crew := range crews {
		s.work.Go(func() { s.crew(crew, number/crews) })
	}
	return s
}

// crew keeps its connections open from its own addresses, one after the other: a goroutine for each would be this process's siege.
func (s *siege) crew(crew, number int) {
	held := make([]net.Conn, number)
	defer func() {
		for _, c := range held {
			if c != nil {
				c.Close()
			}
		}
	}()
	for round := time.NewTicker(siegePause); ; {
		for i := range held {
			held[i] = s.hold(held[i], crew, i)
		}
		select {
		case <-s.stop:
			round.Stop()
			return
		case <-round.C:
		}
	}
}

// hold opens the connection, or drips into it; one that is closed is opened again.
func (s *siege) hold(c net.Conn, crew, i int) net.Conn {
	how := besiegers[i%len(besiegers)]
	if c != nil {
		if gone(c) {
			s.closed.Add(1)
			c.Close()
			c = nil
		} else if how.drip != "" {
			_, _ = io.WriteString(c, how.drip) // whether it is gone is seen in the next round
		}
	}
	if c != nil {
		return c
	}
	to := s.plain
	if how.secret {
		to = s.secret
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 3, byte(crew), byte(i%5+1))}}
	c, err := dialer.Dial("tcp", to)
	if err != nil {
		return nil
	}
	s.opened.Add(1)
	_, _ = io.WriteString(c, how.text)
	return c
}

// gone tells whether the other side has closed, without waiting and without reading what it sent.
func gone(c net.Conn) (closed bool) {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return true
	}
	var b [1]byte
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || err != nil && err != syscall.EAGAIN
	})
	return closed || err != nil
}

func (s *siege) end() {
	close(s.stop)
	s.work.Wait()
}

// TestSiege: thousands of connections of every idle kind are open against the gateway. Meanwhile nodes that it knows report, and the
// operator works over the socket and over TLS, without one failure. Newcomers enrol and report too. They are strangers until then, so
// they may lose their first connection, and try again as an agent does. The same holds with far fewer descriptors than besiegers.
func TestSiege(t *testing.T) {
	all := httpserver.Descriptors()
	t.Run("all descriptors", func(t *testing.T) { withstand(t, all, min(besiegersAllowed, all-keptBack), 200) })
	t.Run("few descriptors", func(t *testing.T) { withstand(t, 512, 1200, 20) })
}

func withstand(t *testing.T, descriptors, besiegers, nodes int) {
	h := newHouse(t, "--plain-listen", "127.0.0.1:0")
	h.gateway.stop()
	h.env = append(h.env, withDescriptors+"="+strconv.Itoa(descriptors))
	token := word(h.gateway.text(), "msa_")
	pin := word(h.gateway.text(), "sha256:")
	h.open()
	agent := h.agent("steady", h.token())
	h.until("the agent is online", func() bool { return h.online("steady") })

	swarm := h.buildSwarm()
	keep := filepath.Join(h.data, "swarm.json")
	h.swarms(swarm, h.token("--uses", strconv.Itoa(nodes)), nodes, "-keep", keep, "-beats", "1")

	s := besiege(h, besiegers)
	h.until("the siege stands", func() bool { return s.opened.Load() >= int64(besiegers*9/10) })
	newcomers := h.token("--uses", strconv.Itoa(nodes))
	over := time.Now().Add(siegeTime)
	var work sync.WaitGroup
	work.Go(func() { h.swarms(swarm, "", nodes, "-keep", keep, "-rate", "100", "-duration", siegeTime.String()) })
	work.Go(func() { h.swarms(swarm, newcomers, nodes, "-insist", "-rate", "20", "-duration", siegeTime.String()) })
	work.Go(func() { h.works(over) })
	work.Go(func() { h.worksFromAfar(over, token, pin) })
	work.Go(func() { h.comes(over) })
	work.Wait()
	open := h.descriptors()
	h.until("a besieger's time is over", func() bool { return s.closed.Load() > 0 })
	s.end()
	if open > descriptors-16 {
		t.Errorf("the gateway has %d descriptors open of %d", open, descriptors)
	}
	h.until("the agent is online still, or again", func() bool { return h.online("steady") })
	if !alive(agent) || strings.Contains(agent.text(), "level=ERROR") {
		t.Errorf("the agent did not report through the siege:\n%s", agent.text())
	}
	t.Logf("%d connections were opened against the gateway, of which it closed %d; it had %d descriptors open", s.opened.Load(),
		s.closed.Load(), open)
}

// word is the first one in the text with that beginning.
func word(text, beginning string) string {
	at := strings.Index(text, beginning)
	if at < 0 {
		return ""
	}
	return strings.Fields(text[at:])[0]
}

func (h *house) buildSwarm() (program string) {
	program = filepath.Join(h.data, "swarm")
	if out, err := exec.Command("go", "build", "-o", program, "muster/gateway/internal/kit/swarm").CombinedOutput(); err != nil {
		h.t.Fatalf("build the swarm: %v\n%s", err, out)
	}
	return program
}

// swarms has nodes enrol, where there is a token for them, and report. It fails when one request is not answered as it should be.
func (h *house) swarms(program, token string, nodes int, flags ...string) {
	command := exec.Command(program, append([]string{"-gateway", h.url, "-nodes", strconv.Itoa(nodes)}, flags...)...)
	command.Env = append(cleanEnv(), "MUSTER_TOKEN="+token)
	if out, err := command.CombinedOutput(); err != nil {
		h.t.Errorf("the swarm %s: %v\n%s", flags, err, out)
	}
}

// works is the operator at the socket.
func (h *house) works(until time.Time) {
	for time.Now().Before(until) {
		if code, _, stderr := h.try("node", "ls"); code != 0 {
			h.t.Errorf("node ls over the socket: exit %d, %s", code, stderr)
			return
		}
	}
}

// worksFromAfar is the operator elsewhere, each time on a new connection.
func (h *house) worksFromAfar(until time.Time, token, pin string) {
	env := map[string]string{"MUSTER_URL": h.url, "MUSTER_API_TOKEN": token, "MUSTER_ROOT_PIN": pin}
	for time.Now().Before(until) {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		code := run(ctx, []string{"node", "ls"}, func(name string) string { return env[name] }, strings.NewReader(""), &out, &errs)
		cancel()
		if code != 0 {
			h.t.Errorf("node ls over TLS: exit %d, %s", code, errs.String())
			return
		}
	}
}

// comes is a stranger with one connection at a time. It may be turned away while all places belong to others that came just now. So it
// tries a few times, as anyone would.
func (h *house) comes(until time.Time) {
	for n := 0; time.Now().Before(until); n++ {
		var err error
		for range 10 {
			if err = h.knock(net.IPv4(127, 2, 0, byte(n%200+1))); err == nil {
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		if err != nil {
			h.t.Errorf("a newcomer: %v", err)
			return
		}
	}
}

func (h *house) knock(from net.IP) error {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	// only whether it is answered counts
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get(h.url + "/healthz")
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// descriptors is how many the gateway has open.
func (h *house) descriptors() int {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.gateway.cmd.Process.Pid))
	if err != nil {
		h.t.Error(err)
	}
	return len(open)
}
