package service

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"muster/agent/disk"
)

// supervisorLock is a file in the state directory. The process that holds its lock is the supervisor, and writes its id into it.
const supervisorLock = "supervisor.lock"

// SupervisedError is returned if another supervisor runs already.
type SupervisedError struct {
	PID int // 0: not known
}

// Error says that nothing has to be done.
func (e SupervisedError) Error() string {
	return fmt.Sprintf("the supervisor is running already (process %d): nothing to do", e.PID)
}

// lockSupervisor makes this process the supervisor of a state directory, until the file is closed or the process ends.
func lockSupervisor(base string) (*os.File, error) {
	path := filepath.Join(base, supervisorLock)
	file, err := disk.Lock(path)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, SupervisedError{PID: readPID(path)}
	}
	if err != nil {
		return nil, explain(path, err)
	}
	if err := writePID(file); err != nil {
		file.Close()
		return nil, explain(path, err)
	}
	return file, nil
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// readPID is 0 where the holder of the lock has not written its id yet.
func readPID(path string) int {
	raw, _ := os.ReadFile(path)
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid < 2 {
		return 0
	}
	return pid
}

// Supervisor finds the supervisor of a state directory. pid is 0 if none runs, or if the supervisor does not say its id. The lock decides,
// so an old file means nothing.
func Supervisor(base string) (pid int, running bool) {
	path := filepath.Join(base, supervisorLock)
	if !disk.Locked(path) {
		return 0, false
	}
	return readPID(path), true
}
