package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const childSubreaper = 36 // PR_SET_CHILD_SUBREAPER of prctl(2)

// adopt has this process be the parent of what agents start and leave running, such as programs of muster run.
func adopt() error {
	if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, childSubreaper, 1, 0); err != 0 {
		return fmt.Errorf("prctl: %w", err)
	}
	return nil
}

// endOrphans ends all children, and those that become children by that.
func endOrphans() {
	for {
		found := false
		for _, pid := range children() {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				_, err := syscall.Wait4(pid, nil, 0, nil)
				found = found || err == nil
			}
		}
		if !found {
			return
		}
	}
}

// children are the processes whose parent this one is.
func children() (all []int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}
