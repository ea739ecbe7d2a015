package service

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// notifySocket is the variable that names the socket.
const notifySocket = "NOTIFY_SOCKET"

// Notifier tells systemd, or the agent's own supervisor, how the agent is (sd_notify(3)). Without a socket it does nothing. Its methods are
// safe for concurrent use.
type Notifier struct {
	socket string
	taken  []string // out of the environment
	mu     sync.Mutex
	ready  bool
	status string
}

// NewNotifier reads NOTIFY_SOCKET. It removes this variable and those of the watchdog from the environment, so that no child
// inherits them.
func NewNotifier(getenv func(string) string) *Notifier {
	n := &Notifier{socket: getenv(notifySocket)}
	for _, name := range []string{notifySocket, "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if value := getenv(name); value != "" {
			n.taken = append(n.taken, name+"="+value)
		}
		os.Unsetenv(name)
	}
	return n
}

// Environ returns this process's environment as it was before NewNotifier, for a process that takes its place.
func (n *Notifier) Environ() []string { return append(os.Environ(), n.taken...) }

// Told reports whether there is anybody to tell.
func (n *Notifier) Told() bool { return n.socket != "" }

// Progress feeds the watchdog and says how the agent is. The first call also says that the agent has started.
func (n *Notifier) Progress(status string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := []string{"WATCHDOG=1"}
	if !n.ready {
		lines = append(lines, "READY=1")
	}
	if status != n.status {
		lines = append(lines, "STATUS="+oneLine(status))
	}
	if n.send(lines) {
		n.ready = true
		n.status = status
	}
}

// Starting asks for more time to start in.
func (n *Notifier) Starting(more time.Duration, status string) {
	n.send([]string{"EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(more.Microseconds(), 10), "STATUS=" + oneLine(status)})
}

// Stopping says that the agent ends because it was told to.
func (n *Notifier) Stopping() { n.send([]string{"STOPPING=1"}) }

// send writes one datagram. A name that begins with @ is an abstract socket, for systemd as for package net.
func (n *Notifier) send(lines []string) bool {
	if n.socket == "" {
		return false
	}
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return false
	}
	defer connection.Close()
	connection.SetWriteDeadline(time.Now().Add(time.Second))
	_, err = connection.Write([]byte(strings.Join(lines, "\n")))
	return err == nil
}
