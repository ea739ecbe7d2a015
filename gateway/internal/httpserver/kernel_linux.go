package httpserver

import (
	"net"
	"syscall"
	"unsafe"
)

const (
	unsentLowat = 25       // TCP_NOTSENT_LOWAT (tcp(7), linux/tcp.h), which package syscall lacks
	aheadOf     = 64 << 10 // bytes
)

// keepLittle has the kernel keep for a peer what is on its way, and little more. By itself the kernel would keep up to 4 MiB, also for a
// peer that does not read, in memory that all connections of this machine share.
func keepLittle(c net.Conn) {
	with, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unsentLowat, aheadOf) // an old kernel does without
	})
}

// unread is how many bytes from the peer wait to be read; known is false if the kernel does not say.
func unread(c net.Conn) (n int, known bool) { return ask(c, syscall.TIOCINQ) }

// unsent is how many written bytes the peer has not taken yet.
func unsent(c net.Conn) (n int, known bool) { return ask(c, syscall.TIOCOUTQ) }

// ask puts a question to the kernel that it answers with one number (tcp(7), unix(7)).
func ask(c net.Conn, question uintptr) (n int, known bool) {
	with, ok := c.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return 0, false
	}
	var answer int32
	var fault syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, fault = syscall.Syscall(syscall.SYS_IOCTL, fd, question, uintptr(unsafe.Pointer(&answer)))
	})
	return int(answer), err == nil && fault == 0
}
