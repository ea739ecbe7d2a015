package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	benchConns = 64 // requests in flight
	startLimit = time.Minute
	startPause = time.Millisecond // between two looks whether a server is ready
)

func decimal(n int) string { return strconv.Itoa(n) }

// child is a process that is watched. What it writes goes to a file.
type child struct {
	*bench
	cmd *exec.Cmd
	log string
}

// child starts a program. With out, its standard output is read there.
func (m *bench) child(out io.Writer, env []string, path string, args ...string) *child {
	m.Helper()
	log, err := os.CreateTemp(m.dir, filepath.Base(path)+"-*.log")
	m.must(err)
	m.Cleanup(func() { _ = log.Close() }) // the process gets it when it starts
	c := &child{bench: m, cmd: exec.Command(path, args...), log: log.Name()}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.cmd.Stdout = log
	c.cmd.Stderr = log
	if out != nil {
		c.cmd.Stdout = out
	}
	return c
}

func (c *child) start() {
	c.Helper()
	c.must(c.cmd.Start())
	c.Cleanup(c.kill)
}

// kill ends the process without a warning.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// end asks the process to end, and waits.
func (c *child) end() {
	c.Helper()
	c.must(c.cmd.Process.Signal(os.Interrupt))
	if err := c.cmd.Wait(); err != nil {
		c.Errorf("%s: %v\n%s", c.cmd.Path, err, c.said())
	}
}

func (c *child) said() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	return string(text[max(len(text)-most, 0):])
}

// processor is the time that the process itself has had, without its children (proc(5), in ticks of 10 ms).
func (c *child) processor() time.Duration {
	text := c.proc("stat")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		c.Fatalf("/proc/PID/stat: %q", text)
	}
	user, err := strconv.Atoi(fields[11])
	c.must(err)
	system, err := strconv.Atoi(fields[12])
	c.must(err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident is the process's memory in bytes.
func (c *child) resident() float64 { return c.memory("VmRSS:") }

// peak is the most memory that the process has had, in bytes.
func (c *child) peak() float64 { return c.memory("VmHWM:") }

func (c *child) memory(name string) float64 {
	for line := range strings.Lines(c.proc("status")) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			c.must(err)
			return float64(kib) * 1024
		}
	}
	c.Fatal("/proc/PID/status has no " + name)
	return 0
}

func (c *child) proc(name string) string {
	c.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.cmd.Process.Pid, name))
	if err != nil {
		c.Fatalf("%v\n%s", err, c.said())
	}
	return string(text)
}

// served is a gateway in a process of its own.
type served struct {
	*child
	data, address string
	ready         time.Duration // from exec until /readyz said so
}

func (g *served) url() string { return "https://" + g.address }

// serve starts a gateway on a free port.
func (m *bench) serve(data string) *served {
	m.Helper()
	return m.serveAt(data, m.freeAddress())
}

func (m *bench) serveAt(data, address string) *served {
	m.Helper()
	g := &served{data: data, address: address}
	g.child = m.child(nil, nil, m.muster, "serve", "--data", data, "--listen", address, "--public-url", "https://"+address)
	started := time.Now()
	g.start()
	m.untilReady(g.child, g.url()+"/readyz")
	g.ready = time.Since(started)
	return g
}

func (m *bench) freeAddress() string {
	m.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	m.must(err)
	defer l.Close()
	return l.Addr().String()
}

// untilReady waits until a URL answers 200.
func (m *bench) untilReady(c *child, url string) {
	m.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for begun := time.Now(); time.Since(begun) < startLimit; time.Sleep(startPause) {
		response, err := client.Get(url)
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
	}
	m.Fatalf("%s is not ready after %s\n%s", c.cmd.Path, startLimit, c.said())
}

// credential mints a token by the gateway's own command.
func (g *served) credential(more ...string) string {
	g.Helper()
	create := append([]string{"--data", g.data, "token", "create", "--uses", "100000", "-o", "json"}, more...)
	text, err := exec.Command(g.muster, create...).Output()
	g.must(err)
	var made struct {
		Token string `json:"token"`
	}
	g.must(json.Unmarshal(text, &made))
	return made.Token
}

// noop starts the server that heartbeats are compared with.
func (m *bench) noop() (server *child, url string) {
	m.Helper()
	read, write, err := os.Pipe()
	m.must(err)
	defer read.Close()
	server = m.child(write, nil, m.swarm, "-noop", "127.0.0.1:0")
	server.start()
	write.Close()
	url, err = bufio.NewReader(read).ReadString('\n')
	m.must(err)
	return server, strings.TrimSpace(url)
}

// operation is one line of the swarm's report.
type operation struct {
	Operation string         `json:"operation"`
	Count     int            `json:"count"`
	Seconds   float64        `json:"seconds"`
	PerSecond float64        `json:"per_second"`
	P50       float64        `json:"p50_ms"`
	P99       float64        `json:"p99_ms"`
	Refused   map[string]int `json:"refused"`
}

type operations map[string]operation

func (m *bench) operations(text []byte) operations {
	m.Helper()
	var report struct {
		Operations []operation `json:"operations"`
	}
	m.must(json.Unmarshal(text, &report))
	all := operations{}
	for _, o := range report.Operations {
		all[o.Operation] = o
	}
	return all
}

// play runs the swarm once against a gateway.
func (m *bench) play(g *served, args ...string) operations {
	m.Helper()
	return m.run([]string{"MUSTER_TOKEN=" + g.credential()}, append([]string{"-gateway", g.url()}, args...)...)
}

func (m *bench) run(env []string, args ...string) operations {
	m.Helper()
	var out bytes.Buffer
	c := m.child(&out, env, m.swarm, append([]string{"-conns", decimal(benchConns)}, args...)...)
	if err := c.cmd.Run(); err != nil {
		m.Fatalf("swarm %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), c.said())
	}
	return m.operations(out.Bytes())
}

// player is a swarm that is asked for turns.
type player struct {
	*child
	in  io.WriteCloser
	out *bufio.Reader
}

func (m *bench) player(url string, args ...string) *player {
	m.Helper()
	c := m.child(nil, nil, m.swarm, append([]string{"-turns", "-gateway", url, "-conns", decimal(benchConns)}, args...)...)
	p := &player{child: c}
	var err error
	p.in, err = c.cmd.StdinPipe()
	m.must(err)
	c.cmd.Stdout = nil
	out, err := c.cmd.StdoutPipe()
	m.must(err)
	p.out = bufio.NewReader(out)
	c.start()
	return p
}

// turn lets the nodes report once more, with these flags.
func (p *player) turn(flags ...string) operations {
	p.Helper()
	_, err := fmt.Fprintln(p.in, strings.Join(flags, " "))
	p.must(err)
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		p.Fatalf("swarm: %v\n%s", err, p.said())
	}
	return p.operations(line)
}

// leave ends the swarm, and with it all of its connections.
func (p *player) leave() {
	p.Helper()
	p.must(p.in.Close())
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("swarm: %v\n%s", err, p.said())
	}
}
