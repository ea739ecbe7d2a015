package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"muster/agent/wire"
)

// Machine is what service install works on. Zero fields mean this machine itself.
type Machine struct {
	Root    string                                                                 // stands before every path
	Program string                                                                 // the program to install; "": the one that runs
	UID     func() int                                                             // nil: os.Geteuid
	Command func(ctx context.Context, name string, args ...string) (string, error) // gives what it prints; nil: runs the program
	Chown   func(in *os.Root, name string, uid, gid int) error                     // nil: in.Lchown
	Ready   func(ctx context.Context, url string) error                            // nil: asks the URL
	Rand    io.Reader                                                              // nil: crypto/rand
}

func (m Machine) complete() Machine {
	if m.Program == "" {
		m.Program = "/proc/self/exe" // this file also when its name belongs to a newer one by now
	}
	if m.UID == nil {
		m.UID = os.Geteuid
	}
	if m.Command == nil {
		m.Command = runCommand
	}
	if m.Chown == nil {
		m.Chown = (*os.Root).Lchown
	}
	if m.Ready == nil {
		m.Ready = askReady
	}
	if m.Rand == nil {
		m.Rand = rand.Reader
	}
	return m
}

func hinted(message, hint string) error { return &wire.ErrorDetail{Message: message, Hint: hint} }

func runCommand(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		said := strings.TrimSpace(errs.String())
		if said == "" {
			return out.String(), fmt.Errorf("%s: %w", strings.Join(append([]string{name}, args...), " "), err)
		}
		return out.String(), fmt.Errorf("%s: %s: %w", strings.Join(append([]string{name}, args...), " "), strings.ReplaceAll(said, "\n", "; "), err)
	}
	return out.String(), nil
}

// askReady asks the gateway on this machine. Its certificate is for other names than loopback's and is not checked:
// nothing is sent, and nothing but the status believed.
func askReady(ctx context.Context, url string) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers with status %d", answer.StatusCode)
	}
	return nil
}

// localURL is where this machine reaches a listener.
func localURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}

func (s *service) at(path string) string { return filepath.Join(s.Root, path) }

func (s *service) exists(path string) bool {
	_, err := os.Lstat(s.at(path))
	return err == nil
}

// read gives nil when there is no such file.
func (s *service) read(path string) ([]byte, error) {
	raw, err := os.ReadFile(s.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if raw == nil && err == nil {
		raw = []byte{}
	}
	return raw, err
}

func (s *service) same(one, other string) bool {
	a, err := os.Stat(s.at(one))
	if err != nil {
		return false
	}
	b, err := os.Stat(s.at(other))
	return err == nil && os.SameFile(a, b)
}

// locked tells whether a gateway holds the lock of a data directory.
func (s *service) locked(path string) bool {
	file, err := os.OpenFile(s.at(path), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// write replaces a file as a whole, so that neither a reader nor a power cut finds half of it.
func (s *service) write(path string, content []byte, mode fs.FileMode) (err error) {
	target := s.at(path)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(target), ".muster-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), target); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(target))
}

// remove removes a file for good; one that is not there is none to remove.
func (s *service) remove(path string) error {
	err := os.Remove(s.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(s.at(path)))
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
