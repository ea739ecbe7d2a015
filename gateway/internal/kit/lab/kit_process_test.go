//go:build real

package lab

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Process is a program that runs beside the test: a gateway, an agent, a machine.
type Process struct {
	lab  *Lab
	name string
	cmd  *exec.Cmd
	done chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// Start runs a command of this lab. It is killed at the end of the test, and what it said is shown when the test failed.
func (l *Lab) Start(name string, cmd *exec.Cmd) *Process {
	l.T.Helper()
	p := &Process{lab: l, name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout = p
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		l.T.Fatalf("%s: %v", name, err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	l.T.Cleanup(func() {
		p.Kill()
		if l.T.Failed() {
			l.T.Logf("--- %s\n%s", name, tail(p.Text()))
		}
	})
	return p
}

// Write collects what the process says.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

// Text is what the process has said so far, on both streams.
func (p *Process) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Await waits until the process has said this.
func (p *Process) Await(text string) {
	p.lab.T.Helper()
	p.lab.Until(p.name+" says "+text, func() bool {
		if !strings.Contains(p.Text(), text) && p.Ended() {
			p.lab.T.Fatalf("%s ended without saying %q", p.name, text)
		}
		return strings.Contains(p.Text(), text)
	})
}

// Ended tells whether the process is over.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// PID is the process's number on this machine.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once and waits for that.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end and waits until it has, or kills it.
func (p *Process) Stop() {
	p.lab.T.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.lab.Until(p.name+" ends", p.Ended)
}
