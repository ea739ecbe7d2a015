package host

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"muster/agent/wire"
)

const (
	kmsg       = "/dev/kmsg"
	kmsgDevice = 1<<8 | 11 // its number: in some containers the name stands for another device, such as their console

	// MaxRecord is room for any record, in bytes. The kernel's own limit is 8 KiB.
	MaxRecord = 16 << 10
)

// Device is the kernel's log. It is opened for reading without waiting, and each read returns one record, the oldest first.
type Device struct {
	Open   func() (int, error)
	Read   func(file int, into []byte) (int, error)
	Close  func(file int) error
	Uptime func() (time.Duration, bool) // how long ago the machine was booted
}

// Kmsg returns the log of this machine.
func Kmsg() Device { return Device{openKmsg, syscall.Read, syscall.Close, uptime} }

// Moment returns the time of a record, as far as the clock and the time since the boot tell it. The kernel counts from the boot on, and
// leaves out the time that the machine was asleep.
func (d Device) Moment(since time.Duration, now time.Time) time.Time {
	at := now.UTC()
	if up, ok := d.Uptime(); ok && up > since {
		at = at.Add(since - up)
	}
	return at
}

// Passes reports whether a read fails for the moment and not for good. EPIPE: records were overwritten before they were read, and the
// kernel goes on with its oldest. EINVAL: a record was too long, and is skipped.
func Passes(err error) bool {
	return errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINVAL)
}

func openKmsg() (int, error) {
	var info syscall.Stat_t
	if err := syscall.Stat(kmsg, &info); err != nil {
		return 0, err
	}
	if info.Mode&syscall.S_IFMT != syscall.S_IFCHR || info.Rdev != kmsgDevice {
		return 0, errOther
	}
	return syscall.Open(kmsg, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
}

func uptime() (time.Duration, bool) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0, false
	}
	return time.Duration(info.Uptime) * time.Second, true
}

var errOther = errors.New(kmsg + " is another device here, as in some containers: look for Xid on the host")

// Explain says why the log cannot be read. It is empty for no error.
func Explain(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errOther):
		return err.Error()
	case errors.Is(err, fs.ErrNotExist):
		return "there is no " + kmsg + ": a container does not get its host's log, so look for Xid on the host"
	case errors.Is(err, fs.ErrPermission):
		return kmsg + " may not be read: run the agent as root, or give it CAP_SYSLOG (kernel.dmesg_restrict)"
	}
	return fmt.Sprintf("%s cannot be read: %s", kmsg, wire.OneLine(err.Error(), maxText))
}
