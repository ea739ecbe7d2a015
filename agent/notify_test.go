package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/service"
)

// notifySocket stands for the socket of systemd. Its path is short: the kernel takes about 100 bytes.
func notifySocket(t *testing.T) (socket *net.UnixConn, path string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	path = filepath.Join(folder, "notify")
	socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket, path
}

// TestStartedThoughTheGatewayIsAway: a unit that waits for the gateway would fail at boot.
func TestStartedThoughTheGatewayIsAway(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.stopUnit()
	socket, path := notifySocket(t)
	socket.SetReadDeadline(time.Now().Add(20 * time.Second))
	receive := func() string {
		raw := make([]byte, 4096)
		n, _, err := socket.ReadFrom(raw)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw[:n])
	}
	agent := exec.Command(service.Layout{Base: b.base}.Program(), "run", "--gateway", "https://127.0.0.1:1", "--state", b.base, "--no-gpu")
	agent.Env = []string{asAgent + "=" + b.root, "NOTIFY_SOCKET=" + path, "GORACE=" + os.Getenv("GORACE")}
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if got := receive(); got != "WATCHDOG=1\nREADY=1\nSTATUS=retrying" {
		t.Errorf("%q", got)
	}
	_ = agent.Process.Signal(syscall.SIGTERM)
	for got := ""; got != "STOPPING=1"; got = receive() {
	}
	_ = agent.Wait()
}

// TestEnrollingAsksForTime: while it enrols, the agent asks for more time and does not say that it has started.
func TestEnrollingAsksForTime(t *testing.T) {
	t.Parallel()
	socket, path := notifySocket(t)
	b := newBox(t)
	getenv := environment("NOTIFY_SOCKET", path, "MUSTER_TOKEN", b.token)
	said := make(chan string, 1)
	go func() {
		raw := make([]byte, 4096)
		for {
			n, _, err := socket.ReadFrom(raw)
			if err != nil {
				close(said)
				return
			}
			if text := string(raw[:n]); strings.Contains(text, "nothing") || strings.Contains(text, "refused") {
				said <- text
				return
			}
		}
	}()
	var got string
	done := func() bool {
		select {
		case got = <-said:
			return true
		default:
			return false
		}
	}
	agent(t, getenv, "", done, "run", "--gateway", "https://127.0.0.1:1", "--state", b.base, "--name", "x", "--no-gpu")
	if !strings.HasPrefix(got, "EXTEND_TIMEOUT_USEC=600000000\nSTATUS=enrolling: ") || strings.Contains(got, "READY") {
		t.Errorf("%q", got)
	}
}
