package service

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// supervisorLock is a file in the state directory. The process that holds its lock is the supervisor, and writes its id into it.
const supervisorLock = "supervisor.lock"

// SupervisedError is returned where another supervisor runs already.
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
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, explain(path, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = writePID(file)
	}
	if err == nil {
		return file, nil
	}
	defer file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, SupervisedError{PID: readPID(file)}
	}
	return nil, explain(path, err)
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// readPID is 0 where the holder of the lock has not written its id yet.
func readPID(file *os.File) int {
	raw, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid < 2 {
		return 0
	}
	return pid
}

// Supervisor finds the supervisor of a state directory. pid is 0 where none runs, or where it does not say its id. The lock
// decides, so an old file means nothing.
func Supervisor(base string) (pid int, running bool) {
	file, err := os.Open(filepath.Join(base, supervisorLock))
	if err != nil {
		return 0, false
	}
	defer file.Close()
	if !errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return 0, false
	}
	return readPID(file), true
}
