package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"muster/agent/disk"
)

// ServiceUnit is the name of the gateway's service.
const ServiceUnit = "muster.service"

// Machine is the machine on which the gateway's service runs or will run. Zero fields mean this machine itself.
type Machine struct {
	Root    string                                                                 // stands before every path
	Program string                                                                 // the program to install; "": the one that runs
	UID     func() int                                                             // nil: os.Geteuid
	Command func(ctx context.Context, name string, args ...string) (string, error) // gives what it prints; nil: runs the program
	Chown   func(in *os.Root, name string, uid, gid int) error                     // nil: in.Lchown
	Ready   func(ctx context.Context, url string) error                            // nil: asks the URL
	Rand    io.Reader                                                              // nil: crypto/rand
	Disk    disk.Steps                                                             // of the files that are written; nil: nobody is told
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

func runCommand(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	command.Stdout = &out
	command.Stderr = &errs
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		said := strings.TrimSpace(errs.String())
		if said == "" {
			return out.String(), fmt.Errorf("%s: %w", strings.Join(append([]string{name}, args...), " "), err)
		}
		return out.String(), fmt.Errorf("%s: %s: %w", strings.Join(append([]string{name}, args...), " "),
			strings.ReplaceAll(said, "\n", "; "), err)
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

// UnitState returns what systemd knows of the gateway's service, by the names of systemctl show.
func (m Machine) UnitState(ctx context.Context) (map[string]string, error) {
	said, err := m.Command(ctx, "systemctl", "show", ServiceUnit, "--property", "ActiveState,MainPID,NeedDaemonReload")
	if err != nil {
		return nil, err
	}
	state := map[string]string{}
	for line := range strings.Lines(said) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		state[key] = value
	}
	return state, nil
}
