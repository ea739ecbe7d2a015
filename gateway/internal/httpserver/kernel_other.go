//go:build !linux

package httpserver

import "net"

func keepLittle(net.Conn) {}

// unread and unsent are not known here: other systems do not say. Then only what a Write took counts as progress.
func unread(net.Conn) (n int, known bool) { return 0, false }

func unsent(net.Conn) (n int, known bool) { return 0, false }
