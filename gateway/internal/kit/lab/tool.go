package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
)

// The step-ca that tests and measurements run beside the gateway.
const (
	StepCA        = "github.com/smallstep/certificates/cmd/step-ca"
	StepCAVersion = "v0.30.2"
)

// Tool is Program for a test. Where the program cannot be built the test is skipped with the reason, or fails when CI is set.
func (l *Lab) Tool(program, version string) string {
	l.T.Helper()
	file, err := Program(program, version)
	if err != nil {
		Lacking(l.T, fmt.Sprintf("not run: %s@%s cannot be built: %v", program, version, err))
	}
	return file
}

// Program gives the path of a Go program of others at a fixed version. It is built from the Go module proxy on first use, without
// cgo, and kept in the user's cache for the next run.
func Program(program, version string) (file string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, path.Base(program)+"-"+version)
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	file = filepath.Join(dir, path.Base(program))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	c := exec.Command("go", "install", program+"@"+version) // go puts the program in place when it is whole
	c.Dir = cache
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOBIN="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, tail(string(out)))
	}
	return file, nil
}
