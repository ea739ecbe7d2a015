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
	device     = "/dev/kmsg"
	kmsgDevice = 1<<8 | 11 // its number: in some containers the name stands for another device, such as their console

	// MaxRecord is room for any record, in bytes. The kernel's own limit is 8 KiB.
	MaxRecord = 16 << 10
)

// OpenDevice opens the kernel's log for reading without waiting. Each read gives one record, the oldest first.
func OpenDevice() (int, error) {
	var info syscall.Stat_t
	if err := syscall.Stat(device, &info); err != nil {
		return 0, err
	}
	if info.Mode&syscall.S_IFMT != syscall.S_IFCHR || info.Rdev != kmsgDevice {
		return 0, errOther
	}
	return syscall.Open(device, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
}

// Uptime is how long ago the machine was booted.
func Uptime() (time.Duration, bool) {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0, false
	}
	return time.Duration(info.Uptime) * time.Second, true
}

var errOther = errors.New(device + " is another device here, as in some containers: look for Xid on the host")

// Explain says why the log cannot be read. It is empty for no error.
func Explain(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errOther):
		return err.Error()
	case errors.Is(err, fs.ErrNotExist):
		return "there is no " + device + ": a container does not get its host's log, so look for Xid on the host"
	case errors.Is(err, fs.ErrPermission):
		return device + " may not be read: run the agent as root, or give it CAP_SYSLOG (kernel.dmesg_restrict)"
	}
	return fmt.Sprintf("%s cannot be read: %s", device, wire.OneLine(err.Error(), maxText))
}
