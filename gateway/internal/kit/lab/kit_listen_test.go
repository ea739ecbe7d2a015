//go:build real

package lab

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
)

// setns is the number of a system call that package syscall lacks on some machines.
var setns = map[string]uintptr{"amd64": 308, "arm64": 268}[runtime.GOARCH]

// Listen opens a port of the lab's network for this process, until the end of the test. A socket stays in the network in which it was made.
func (l *Lab) Listen(address string) net.Listener {
	l.T.Helper()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		l.T.Fatal(err)
	}
	defer here.Close() // it was read
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", l.holder.Process.Pid))
	if err != nil {
		l.T.Fatal(err)
	}
	defer there.Close() // it was read
	enter := func(network *os.File) {
		if _, _, errno := syscall.RawSyscall(setns, network.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
			panic(errno) // this thread would go on in the wrong network
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	enter(there)
	listener, err := net.Listen("tcp", address)
	enter(here)
	if err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() { _ = listener.Close() })
	return listener
}
