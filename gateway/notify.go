package main

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

// announce tells systemd that the gateway serves, and, when ctx ends, that it stops; without systemd it does nothing. The
// function that it gives ends the watch on ctx.
func announce(ctx context.Context, getenv func(string) string, log *slog.Logger) (stop func() bool) {
	socket := getenv("NOTIFY_SOCKET")
	say := func(state string) {
		if err := notify(socket, state); err != nil {
			log.Error("systemd cannot be told that this gateway is alive, and may restart it", "error", err)
		}
	}
	say("READY=1")
	return context.AfterFunc(ctx, func() { say("STOPPING=1") })
}

// notify sends one datagram as sd_notify(3) describes; an @ stands for the zero byte of an abstract socket.
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
