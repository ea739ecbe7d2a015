package account

import (
	"errors"
	"runtime"
	"syscall"
)

// as does work on files with the rights of a user.
func (a *Accounts) as(uid, gid int, work func() error) error {
	if a.become != nil {
		return a.become(uid, gid, work)
	}
	return asUser(uid, gid, work)
}

// asUser does work on files with the rights of a user, and with those alone: setfsuid(2). So a link or a name that the user changes
// meanwhile leads nowhere where the user could not have gone alone. New files belong to the user.
//
// These rights belong to a thread. The goroutine keeps its thread until both end, so that no other work ever gets it. The user cannot
// signal or trace the agent meanwhile, because the thread's other ids stay those of root.
func asUser(uid, gid int, work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := takeRights(uid, gid); err != nil {
			result <- err
			return
		}
		result <- work()
	}()
	return <-result
}

// takeRights changes the rights of this thread on files. The calls of package syscall would change all threads.
func takeRights(uid, gid int) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return errno
	}
	const ask = ^uintptr(0) // no id: nothing is changed, and the answer is what holds
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(gid), 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
	group, _, _ := syscall.RawSyscall(syscall.SYS_SETFSGID, ask, 0, 0)
	user, _, _ := syscall.RawSyscall(syscall.SYS_SETFSUID, ask, 0, 0)
	if int(group) != gid || int(user) != uid {
		return errors.New("the system did not give the agent the rights of the user")
	}
	return nil
}
