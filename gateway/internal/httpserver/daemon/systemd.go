package daemon

// This file tells systemd how a service is, as sd_notify(3) describes.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
)

const notifyTime = 5 * time.Second

// Notifier says that a service serves, and that it stops. Without systemd it says nothing.
type Notifier struct {
	Socket string // of the variable NOTIFY_SOCKET; empty: there is no systemd
	Logger *slog.Logger
}

// Ready says that the service serves.
func (n Notifier) Ready() { n.say("READY=1") }

// Run says that the service serves and, when ctx ends, that it stops.
func (n Notifier) Run(ctx context.Context) error {
	n.Ready()
	<-ctx.Done()
	n.say("STOPPING=1")
	return nil
}

// say logs a failure and goes on: a gateway that serves must not end because systemd was not told.
func (n Notifier) say(state string) {
	if err := notify(n.Socket, state); err != nil {
		n.Logger.Error("systemd cannot be told that this gateway is alive, and may restart it", "error", err)
	}
}

// notify sends one datagram. In the socket's name an @ stands for the zero byte of an abstract socket.
func notify(socket, state string) error {
	if socket == "" {
		return nil
	}
	if socket[0] != '/' && socket[0] != '@' {
		return fmt.Errorf("NOTIFY_SOCKET %.80q is no unix socket", socket)
	}
	if name, abstract := strings.CutPrefix(socket, "@"); abstract {
		socket = "\x00" + name
	}
	conn, err := net.DialTimeout("unixgram", socket, notifyTime)
	if err != nil {
		return err
	}
	err = conn.SetWriteDeadline(time.Now().Add(notifyTime))
	if err == nil {
		_, err = conn.Write([]byte(state))
	}
	return errors.Join(err, conn.Close())
}
