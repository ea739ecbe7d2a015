package child

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"
)

// As calls work, which works on files with only the rights of a user: setfsuid(2), and no capability. So a link or a name that the user
// changes meanwhile leads nowhere where the user could not have gone alone. New files belong to the user. Only root can do it.
//
// These rights belong to a thread. The goroutine keeps its thread until both end, so that no other work ever gets it. The user cannot
// signal or trace the agent meanwhile, because the thread's other ids stay those of root. A file system of the user's own (FUSE) looks
// at those too, and refuses.
func As(uid, gid int, groups []int, work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := take(uid, gid, groups); err != nil {
			result <- err
			return
		}
		result <- work()
	}()
	return <-result
}

// take changes the rights of this thread on files. The calls of package syscall would change all threads.
func take(uid, gid int, groups []int) error {
	if err := joinGroups(groups); err != nil {
		return err
	}
	const ask = ^uintptr(0) // no id: nothing is changed, and the answer is what holds
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(gid), 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
	group, _, _ := syscall.RawSyscall(syscall.SYS_SETFSGID, ask, 0, 0)
	user, _, _ := syscall.RawSyscall(syscall.SYS_SETFSUID, ask, 0, 0)
	if int(group) != gid || int(user) != uid {
		return errors.New("the system did not give the agent the rights of the user")
	}
	if uid == 0 {
		return nil
	}
	return dropCapabilities()
}

func joinGroups(groups []int) error {
	list := make([]uint32, len(groups)+1) // one more, so that there is a first
	for i, id := range groups {
		list[i] = uint32(id)
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// dropCapabilities takes from this thread what setfsuid leaves, such as writing beyond a quota and into the space that is kept for root.
func dropCapabilities() error {
	const version = 0x20080522 // _LINUX_CAPABILITY_VERSION_3
	header := struct {
		version uint32
		pid     int32 // 0: this thread
	}{version: version}
	var none [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
