package disktest

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

// WithoutSync has a work done by a thread to which the system refuses to sync. It is for code that promises that a file is on the disk and
// has no Steps. What the work leaves to other goroutines is not refused.
func WithoutSync(t *testing.T, work func()) {
	t.Helper()
	onRefused(t, []syscall.SockFilter{
		{Code: load, K: 0}, // the number of the call
		{Code: unlessEqual, Jf: 1, K: syscall.SYS_FSYNC},
		{Code: answer, K: refused | uint32(syscall.EIO)},
		{Code: answer, K: allowed},
	}, work)
}

// WithoutReading does the same, and refuses to open what is only read: so folders cannot be synced either, but files can.
func WithoutReading(t *testing.T, work func()) {
	t.Helper()
	onRefused(t, []syscall.SockFilter{
		{Code: load, K: 0},
		{Code: unlessEqual, Jf: 4, K: syscall.SYS_OPENAT},
		{Code: load, K: 32}, // the lower half of its third argument, the flags
		{Code: syscall.BPF_ALU | syscall.BPF_AND | syscall.BPF_K, K: uint32(os.O_WRONLY | os.O_RDWR)},
		{Code: unlessEqual, Jf: 1, K: 0},
		{Code: answer, K: refused | uint32(syscall.EIO)},
		{Code: answer, K: allowed},
	}, work)
}

// What filters of seccomp(2) are made of.
const (
	load        = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	unlessEqual = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	answer      = syscall.BPF_RET | syscall.BPF_K
	refused     = 0x00050000
	allowed     = 0x7fff0000
)

func onRefused(t *testing.T, filter []syscall.SockFilter, work func()) {
	t.Helper()
	const noNewPrivileges, seccomp, byFilter = 38, 22, 2 // of prctl(2)
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // for good: no other goroutine may get this thread
		program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		_, _, err := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0)
		if err == 0 {
			_, _, err = syscall.RawSyscall(syscall.SYS_PRCTL, seccomp, byFilter, uintptr(unsafe.Pointer(&program)))
		}
		if err == 0 {
			work()
		}
		done <- err
		select {} // a thread that ends takes along what it has started with Pdeathsig, in this test or in another one
	}()
	switch err := <-done; {
	case err == 0:
	case os.Getenv("CI") != "":
		t.Fatalf("this system has no filters of calls: %v", err)
	default:
		t.Skipf("this system has no filters of calls: %v", err)
	}
}
