package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/child"
	"muster/agent/internal/host"
	"muster/agent/internal/mask"
	"muster/agent/internal/person"
	"muster/agent/internal/transport"
	"muster/agent/pipe"
)

// What a keeper is told by signals.
const (
	askEnd  = syscall.SIGTERM // ask all processes of the run to end
	killNow = syscall.SIGINT  // kill them
)

const (
	// farewellTime is for processes that end by themselves when the program does, as helpers of Python's do.
	farewellTime = 500 * time.Millisecond
	// pipeTime is for output after all processes have ended.
	pipeTime = 2 * time.Second
	// noteTime is how long a disk that takes no ending is tried again. After that nobody knows how the run ended.
	noteTime  = time.Hour
	notePause = 5 * time.Second
)

// order is what a keeper is to start. It comes on its standard input, because it has secrets.
type order struct {
	Path       string
	Args       []string // with the program's name
	Env        []string
	Dir        string
	Credential *syscall.Credential // nil: as the keeper itself
	Secrets    []string            // values that are hidden in the output
}

// answer is what a keeper says on its standard output once the program runs, or where it does not.
type answer struct {
	PID   int        `json:"pid"`
	Exit  *pipe.Exit `json:"exit,omitempty"`  // the program cannot be run
	Error string     `json:"error,omitempty"` // anything else that is wrong
}

// keeper is one keeper at work.
type keeper struct {
	folder string
	order  order
	out    *output
	main   int
	gone   chan struct{}            // closed when no process of the run is left
	ended  chan syscall.WaitStatus  // of the program itself
	each   func(syscall.Signal) int // sends a signal to all processes of the run, and gives their number
}

// Keep does the work of the keeper of one run, whose folder is there. It returns when all processes of the run have ended. It writes only
// into that folder: if the agent was removed meanwhile and joined again, another run may have the folder's path.
func Keep(folder string, stdin io.Reader, stdout io.WriteCloser) error {
	own, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer own.Close()
	folder = fmt.Sprintf("/proc/self/fd/%d", own.Fd())
	said := make(chan os.Signal, 8)
	signal.Notify(said, askEnd, killNow)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE) // they end nothing; ignored ones would be ignored by the program too
	k := &keeper{folder: folder, out: &output{folder: folder, now: time.Now}, gone: make(chan struct{}),
		ended: make(chan syscall.WaitStatus, 1), each: eachBelow}
	if err := json.NewDecoder(stdin).Decode(&k.order); err != nil {
		return fmt.Errorf("read what to start: %w", err)
	}
	from, a := k.start()
	err = json.NewEncoder(stdout).Encode(a)
	_ = stdout.Close()
	if a.PID == 0 {
		return err
	}
	k.order = order{Secrets: k.order.Secrets} // the rest may hold secrets, and is not needed any more
	drained := make(chan struct{})
	go func() { defer close(drained); k.drain(from) }()
	end := k.watch(said)
	_ = from.SetReadDeadline(time.Now().Add(pipeTime))
	<-drained
	k.out.close()
	return k.note(end)
}

// start starts the program in a session of processes of its own, without a terminal.
func (k *keeper) start() (*os.File, answer) {
	// What the run's processes leave behind becomes a child of the keeper, and not of process 1.
	const subreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, subreaper, 1, 0); errno != 0 {
		return nil, answer{Error: "the kernel does not let the keeper look after the program: " + errno.Error()}
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, answer{Error: err.Error()}
	}
	defer to.Close()
	syscall.Umask(0o022) // the agent's own is for its secrets
	cmd := &exec.Cmd{Path: k.order.Path, Args: k.order.Args, Env: k.order.Env, Dir: k.order.Dir, Stdout: to, Stderr: to}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: k.order.Credential}
	if who := k.order.Credential; who != nil { // so that the program can open /dev/stdout and /dev/stderr anew
		if err := to.Chown(int(who.Uid), int(who.Gid)); err != nil {
			return nil, answer{Error: "the program cannot get its output: " + err.Error()}
		}
	}
	if err := cmd.Start(); err != nil {
		if folder := barred(k.order.Dir, k.order.Credential); folder != "" && errors.Is(err, syscall.EACCES) {
			return nil, answer{Error: "its user may not enter the folder " + folder + ": give another one with --dir"}
		}
		return nil, answer{Exit: person.NotStarted(k.order.Args[0], err)}
	}
	k.main = cmd.Process.Pid
	raw, _ := json.Marshal(keeping{host.ProcessOf(os.Getpid()), host.ProcessOf(k.main)})
	if err := disk.Replace(filepath.Join(k.folder, keeperFile), raw, 0o600); err != nil {
		child.KillGroup(k.main)
		return nil, answer{Error: fmt.Sprintf("its keeper cannot write on the disk: %v; %s", err, disk.NextStep(err))}
	}
	_ = k.out.open() // so that readers find it before the first line comes
	go k.reap()
	return from, answer{PID: k.main}
}

// barred is the first folder on the way to dir that a user may not enter, by its mode; empty: there is none, or the user is the keeper's
// own.
func barred(dir string, who *syscall.Credential) string {
	if dir == "" || who == nil || who.Uid == 0 {
		return ""
	}
	if above := filepath.Dir(dir); above != dir {
		if first := barred(above, who); first != "" {
			return first
		}
	}
	var status syscall.Stat_t
	if syscall.Stat(dir, &status) != nil {
		return ""
	}
	bit := uint32(0o001)
	switch {
	case status.Uid == who.Uid:
		bit = 0o100
	case status.Gid == who.Gid || slices.Contains(who.Groups, status.Gid):
		bit = 0o010
	}
	if status.Mode&bit == 0 {
		return dir
	}
	return ""
}

// reap collects all processes of the run, also those that were left behind, until there is none.
func (k *keeper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			close(k.gone)
			return
		case pid == k.main && (status.Exited() || status.Signaled()):
			k.ended <- status
		}
	}
}

// drain keeps what the run writes.
func (k *keeper) drain(from *os.File) {
	veil := &mask.Veil{Mask: mask.New(k.order.Secrets...), To: k.out}
	_, _ = io.Copy(veil, from) // it ends with the last process, or with the deadline
	veil.Flush()
}

// watch waits for the end of the program, and ends what it leaves behind. Signals end the run before that.
func (k *keeper) watch(said <-chan os.Signal) ending {
	var end ending
	var kill context.CancelFunc = func() {}
	for {
		select {
		case s := <-said:
			end.Asked = true
			if s == killNow {
				kill()
				kill = k.killAll()
			} else {
				k.each(syscall.SIGTERM)
				k.each(syscall.SIGCONT) // one that is stopped would not hear the other
			}
		case status := <-k.ended:
			end.Code = status.ExitStatus()
			if status.Signaled() {
				end.Signal = status.Signal().String()
				end.Code = 128 + int(status.Signal())
			}
			end.At = time.Now()
			select {
			case <-k.gone:
			case <-time.After(farewellTime):
			}
			end.Left = k.each(syscall.SIGTERM)
			k.each(syscall.SIGCONT)
			k.awaitGone(&end)
			kill()
			return end
		}
	}
}

// awaitGone waits for the processes that the program has left behind, and kills them after the grace. If that does not help either, it
// writes down the ending of the program, and goes on waiting.
func (k *keeper) awaitGone(end *ending) {
	kill := time.AfterFunc(child.DefaultGrace, func() { defer k.killAll()(); <-k.gone })
	defer kill.Stop()
	held := time.NewTimer(child.DefaultGrace + lastTime)
	defer held.Stop()
	select {
	case <-k.gone:
	case <-held.C:
		end.Stopped = k.stopped()
		if end.Held = k.each(0); end.Held > 0 {
			_ = k.note(*end)
		}
		<-k.gone
	}
	end.Held = 0
	end.Stopped = k.stopped()
}

// stopped tells whether somebody wants the run to end.
func (k *keeper) stopped() bool {
	_, err := os.Stat(filepath.Join(k.folder, stopFile))
	return err == nil
}

func eachBelow(s syscall.Signal) int {
	own := os.Getpid()
	return len(host.Signal("/proc", func(pid int) bool { return host.Below(pid, own) }, s))
}

// killAll kills all processes of the run until none is left: one that is killed may have started another one. What cannot be killed is
// tried more and more seldom.
func (k *keeper) killAll() context.CancelFunc {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for pause := 10 * time.Millisecond; k.each(syscall.SIGKILL) > 0 && transport.Sleep(ctx, pause); pause = min(2*pause, time.Second) {
		}
	}()
	return cancel
}

// note writes down how the run ended. Nobody could tell later, so a full disk is tried again, and the older half of
// the output makes room.
func (k *keeper) note(end ending) error {
	raw, err := json.Marshal(end)
	for begun := time.Now(); err == nil; {
		if err = disk.Replace(filepath.Join(k.folder, exitFile), raw, 0o600); err == nil || errors.Is(err, os.ErrNotExist) {
			return err
		}
		if disk.TakesNothing(err) && k.out.dropOlder() {
			err = nil
			continue
		}
		if time.Since(begun) > noteTime {
			return err
		}
		err = nil
		time.Sleep(notePause)
	}
	return err
}
