//go:build !linux

package door

import "net"

func keepLittle(net.Conn) {}

// Without Linux's numbers, what a Write got rid of is all that is known.
func unread(net.Conn) (n int, known bool) { return 0, false }

func unsent(net.Conn) (n int, known bool) { return 0, false }
