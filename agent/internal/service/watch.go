package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Patience is how long a supervisor waits for its agent. It is the same as in the unit, and the agent gives the signs of life that systemd
// expects (sd_notify(3)): an agent notices no difference between systemd and the built-in supervisor.
type Patience struct {
	Start   time.Duration // until the first sign
	Silence time.Duration // from one sign to the next
	Stop    time.Duration // for the agent to end when it was told to
	Look    time.Duration // between two looks
}

// orUnits is the unit's, where no other is given. Only tests give one.
func (p Patience) orUnits() Patience {
	if p == (Patience{}) {
		return Patience{Start: unitStart, Silence: unitWatchdog, Stop: unitStop, Look: 5 * time.Second}
	}
	return p
}

// mostPatience bounds what an agent that starts may ask for.
const mostPatience = time.Hour

// ErrHung is the end of an agent that gave no sign of life: its supervisor has ended it.
var ErrHung = errors.New("it gave no sign of life, and was ended")

// Watch runs the agents of one state directory, and hears their signs of life.
type Watch struct {
	Patience
	base   string
	socket *net.UnixConn // nil: nothing is heard
	name   string
}

// NewWatch opens the socket. Its name is that of the state directory, so that the next supervisor hears an agent that this one leaves
// behind. It is not a file: so it does not depend on the disk, and nothing has to be removed. With an error it returns a Watch too, which
// hears nothing and ends no agent.
func NewWatch(base string, p Patience) (*Watch, error) {
	w := &Watch{Patience: p.orUnits(), base: base}
	var place syscall.Stat_t
	if err := syscall.Stat(base, &place); err != nil {
		return w, err
	}
	w.name = fmt.Sprintf("@%s-%x-%x", Name, place.Dev, place.Ino)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: w.name, Net: "unixgram"})
	if err != nil {
		return w, err
	}
	raw, err := socket.SyscallConn()
	if err == nil {
		var refused error
		err = raw.Control(func(fd uintptr) { refused = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1) })
		err = errors.Join(err, refused)
	}
	if err != nil {
		socket.Close()
		return w, err
	}
	w.socket = socket
	return w, nil
}

// Close closes the socket.
func (w *Watch) Close() {
	if w.socket != nil {
		w.socket.Close()
	}
}

// hangs waits until the agent has been silent for too long. It reports false if ctx was done before. A patience of 0 begins with the
// first sign: it is for an agent that may have been started by something else. Looks are counted, and not time: where this process was
// frozen, the agent was too. What is no sign of life holds up no look: anybody on this machine can send that.
func (w *Watch) hangs(ctx context.Context, patience time.Duration) bool {
	defer context.AfterFunc(ctx, func() { w.socket.SetReadDeadline(time.Unix(1, 0)) })()
	look := time.Now().Add(w.Look)
	for left := patience; ; {
		w.socket.SetReadDeadline(look)
		if ctx.Err() != nil {
			return false
		}
		more, err := w.hear()
		switch {
		case err == nil && more > 0:
			left = more
		case err == nil:
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded): // the socket is gone, and nothing more is heard
			return false
		case left > 0:
			if left -= w.Look; left <= 0 {
				return ctx.Err() == nil
			}
		}
		look = time.Now().Add(w.Look)
	}
}

// hear takes one message, and says for how long the agent may be silent after it; 0: it says nothing of that. It counts only from this
// user: anybody on this machine can write to the socket.
func (w *Watch) hear() (time.Duration, error) {
	text := make([]byte, 4<<10)
	oob := make([]byte, 256)
	n, oobn, _, _, err := w.socket.ReadMsgUnix(text, oob)
	if err != nil {
		return 0, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, nil
	}
	for i := range messages {
		if from, err := syscall.ParseUnixCredentials(&messages[i]); err == nil && int(from.Uid) == os.Geteuid() {
			return w.allows(string(text[:n])), nil
		}
	}
	return 0, nil
}

// allows is for how long an agent that has said this may be silent; 0: it says nothing of that.
func (w *Watch) allows(text string) (longest time.Duration) {
	for line := range strings.SplitSeq(text, "\n") {
		if line == "WATCHDOG=1" || line == "READY=1" {
			longest = max(longest, w.Silence)
		}
		if more, found := strings.CutPrefix(line, "EXTEND_TIMEOUT_USEC="); found {
			if n, err := strconv.ParseUint(more, 10, 63); err == nil {
				longest = max(longest, time.Duration(min(n, uint64(mostPatience.Microseconds())))*time.Microsecond)
			}
		}
	}
	return longest
}

// Run runs the current build to its end, as its command run with these flags. with sets what else the process needs. When ctx is done, it
// tells the agent to end. It also ends an agent that hangs: then the error is ErrHung.
func (w *Watch) Run(ctx context.Context, flags []string, with func(*exec.Cmd)) error {
	watched, end := context.WithCancelCause(ctx)
	c := exec.CommandContext(watched, Layout{Base: w.base}.Program(), append([]string{"run"}, flags...)...)
	c.Cancel = func() error {
		if context.Cause(watched) == ErrHung {
			return c.Process.Signal(syscall.SIGABRT) // it says where it hangs
		}
		return c.Process.Signal(syscall.SIGTERM)
	}
	c.WaitDelay = w.Stop
	with(c)
	var listening sync.WaitGroup
	if w.socket != nil {
		c.Env = append(c.Env, notifySocket+"="+w.name)
		listening.Go(func() {
			if w.hangs(watched, w.Start) {
				end(ErrHung)
			}
		})
	}
	err := c.Run()
	end(nil)
	listening.Wait()
	if context.Cause(watched) == ErrHung {
		return fmt.Errorf("%w: %v", ErrHung, err)
	}
	return err
}

// endHung ends an agent that hangs and that this process has not started. One that has never given a sign may be somebody else's.
func (w *Watch) endHung(ctx context.Context, log *slog.Logger) {
	m := Manager{Base: w.base}
	pid := m.Agent()
	if w.socket == nil || !w.hangs(ctx, 0) || pid == 0 || pid != m.Agent() {
		return
	}
	log.Warn("the agent that ran here already hangs: ending it", "process", pid)
	if err := m.endAgent(ctx, pid); err != nil {
		log.Error("the agent that hangs was not ended", "error", err)
	}
}
