package session

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"muster/agent/internal/child"
	"muster/agent/internal/host"
	"muster/agent/pipe"
)

const (
	// hangUpTime is from asking the programs of a session to end until they are killed.
	hangUpTime = child.DefaultGrace
	// outputTime is for output after a program has ended: what it has started may hold its output for ever.
	outputTime = 2 * time.Second
)

// process is the program of a session, which leads a session of processes of its own. It is not collected before the end, so that no
// other process gets its number.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended
	forget func()        // takes its record from the disk
}

// start starts a program. If the agent is killed, the program is, too, if alone says so. The kernel binds that to the thread that has
// started it, so that thread waits for the end. What the program has started is left to the next agent: see record.
func (o *opening) start(cmd *exec.Cmd, alone bool) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Env = append(cmd.Env, mark(o.id))
	if alone {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			child.AwaitExit(cmd.Process.Pid)
			close(p.ended)
		}
	}()
	err := <-started
	if err == nil {
		p.forget = o.note(o.id, cmd.Process.Pid)
	}
	return p, err
}

// signal sends a signal to the group of the program, while it runs.
func (p *process) signal(s syscall.Signal) { p.signalGroup(p.cmd.Process.Pid, s) }

// signalGroup sends a signal to a group of processes of the session, while the program runs.
func (p *process) signalGroup(group int, s syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-group, s)
	}
}

// each sends a signal to all living processes of the session, and gives their number. A process that makes a session of its own, as a
// daemon does, belongs to it no more.
func (p *process) each(s syscall.Signal) int { return len(signalSession(p.cmd.Process.Pid, s)) }

// hangUp asks all processes that each reaches to end, and kills those that do not. If the agent stops they have less time.
func hangUp(each func(syscall.Signal) int, stops <-chan struct{}) {
	each(syscall.SIGHUP)
	each(syscall.SIGCONT) // one that is stopped would not hear the other
	timer := time.NewTimer(hangUpTime)
	defer timer.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting && each(0) > 0; {
		select {
		case <-tick.C:
		case <-stops:
			timer.Reset(stopTime / 2)
			stops = nil
		case <-timer.C:
			waiting = false
		}
	}
	for range 100 { // a process that is killed may have started another one
		if each(syscall.SIGKILL) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// signalSession sends a signal to all living processes of the session with this leader, and gives their numbers.
func signalSession(leader int, s syscall.Signal) []int {
	return host.Signal("/proc", func(pid int) bool { return host.InSession(pid, leader) }, s)
}

// collect takes the exit status, once the program has ended.
func (p *process) collect() pipe.Exit {
	<-p.ended
	p.forget()
	err := p.cmd.Wait()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return pipe.Exit{Code: 1, Error: fmt.Sprint(err)}
	case status.Signaled():
		return pipe.Exit{Code: 128 + int(status.Signal()), Signal: signalName(status.Signal())}
	}
	return pipe.Exit{Code: status.ExitStatus()}
}

// source is the output of a program: a pipe, or its terminal.
type source interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// output is one output of a program, and the kind of frames that it goes out in.
type output struct {
	from source
	kind pipe.FrameKind
}

// send sends what a program writes. The channel is closed when all is sent.
func (p *process) send(main *pipe.End, outputs []output, cancel context.CancelCauseFunc) <-chan struct{} {
	var writing sync.Mutex // a frame of one must not stand within a frame of another
	var all sync.WaitGroup
	for _, one := range outputs {
		all.Go(func() {
			err := drain(one.from, p.ended, func(data []byte) error {
				writing.Lock()
				defer writing.Unlock()
				return pipe.WriteFrame(main, one.kind, data)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	return done
}

// drain sends a program's output until its end. Once the program has ended, it waits no longer than outputTime for more.
func drain(from source, ended <-chan struct{}, send func([]byte) error) error {
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ended:
			_ = from.SetReadDeadline(time.Now().Add(outputTime))
		case <-stop:
		}
	})
	defer watch.Wait()
	defer close(stop)
	buffer := make([]byte, pipe.MaxFrame/2)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if failed := send(buffer[:n]); failed != nil {
				return failed
			}
		}
		if err != nil {
			return nil
		}
		select {
		case <-ended: // the time that sending took does not count
			_ = from.SetReadDeadline(time.Now().Add(outputTime))
		default:
		}
	}
}

// watch waits until the program has ended. When ctx is done, it ends all processes of the session.
func (p *process) watch(ctx context.Context, stops <-chan struct{}) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		hangUp(p.each, stops)
		<-p.ended
	}
}
