package host

import (
	"os"
	"strings"
)

// BootID names this boot of the kernel. It is empty where the kernel does not tell.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
