package service_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
)

// asAgent makes the test binary an agent with this state directory, which does no more than to give signs of life.
const asAgent = "SERVICE_TEST_AGENT"

func TestMain(m *testing.M) {
	base := os.Getenv(asAgent)
	switch {
	case base == "":
		os.Exit(m.Run())
	case len(os.Args) > 1 && os.Args[1] == "run":
		if err := live(base); err != nil {
			os.WriteFile(filepath.Join(base, "failed"), []byte(err.Error()), 0o600)
		}
	}
}

// live gives signs of life until there is a file "hang". The next agent finds none.
func live(base string) error {
	directory, err := identity.Open(base)
	if err != nil {
		return err
	}
	defer directory.Close()
	if err := identity.WriteStatus(base, identity.Status{PID: os.Getpid()}); err != nil {
		return err
	}
	calls, err := os.OpenFile(filepath.Join(base, "calls"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	calls.WriteString("run\n")
	socket := os.Getenv("NOTIFY_SOCKET")
	n := service.NewNotifier(os.Getenv)
	for os.Rename(filepath.Join(base, "hang"), filepath.Join(base, "hung")) != nil {
		if to, err := net.Dial("unixgram", socket); err == nil { // else nobody listens yet
			to.Close()
			os.WriteFile(filepath.Join(base, "heard"), nil, 0o600)
		}
		n.Progress("online")
		time.Sleep(2 * time.Millisecond)
	}
	if _, err := os.Stat(filepath.Join(base, "deaf")); err == nil {
		signal.Ignore(syscall.SIGABRT, syscall.SIGTERM)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	<-make(chan bool)
	return nil
}

// kept is a state directory with the test binary as the current build.
type kept struct {
	*testing.T
	service.Layout
}

func newKept(t *testing.T) kept {
	t.Helper()
	k := kept{t, service.Layout{Base: privateDir(t)}}
	build, err := k.Install(service.OwnProgram)
	if err == nil {
		err = k.SetCurrent(build)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asAgent, k.Base)
	return k
}

func (k kept) put(name string) {
	k.Helper()
	if err := os.WriteFile(filepath.Join(k.Base, name), nil, 0o600); err != nil {
		k.Fatal(err)
	}
}

// until polls a condition on other processes, because they give no other sign.
func (k kept) until(what string, ok func() bool) {
	k.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			failed, _ := os.ReadFile(filepath.Join(k.Base, "failed"))
			k.Fatalf("not so: %s; %s", what, failed)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// runs waits until agents were started so often.
func (k kept) runs(n int) {
	k.Helper()
	k.until("another start", func() bool {
		raw, _ := os.ReadFile(filepath.Join(k.Base, "calls"))
		return strings.Count(string(raw), "run") >= n
	})
}

// short is the patience of these tests. A machine that is busy may make an agent look hung: then it is started once more.
func short() service.Patience {
	return service.Patience{Start: 20 * time.Second, Silence: 500 * time.Millisecond, Stop: time.Second, Look: 50 * time.Millisecond}
}

// keeper runs the supervisor until the test ends it, and gives what it has logged.
func (k kept) keeper() (end func() string) {
	k.Helper()
	ctx, stop := context.WithCancel(k.Context())
	var said bytes.Buffer
	ended := make(chan error)
	keeper := service.Keeper{
		Base: k.Base, Settings: filepath.Join(k.Base, "none"), Settle: func(context.Context) {},
		Logger: slog.New(slog.NewTextHandler(&said, nil)), Patience: short(),
	}
	go func() { ended <- keeper.Run(ctx) }()
	return func() string {
		k.Helper()
		stop()
		if err := <-ended; err != nil {
			k.Error(err)
		}
		return said.String()
	}
}

// TestKeeperEndsAnAgentThatHangs: what hangs at any time is ended and started again, also if it does not listen to signals.
func TestKeeperEndsAnAgentThatHangs(t *testing.T) {
	for _, how := range []string{"", "deaf"} {
		k := newKept(t)
		if how != "" {
			k.put(how)
		}
		end := k.keeper()
		k.runs(1)
		k.put("hang")
		k.runs(2)
		if log := end(); !strings.Contains(log, service.ErrHung.Error()) {
			t.Errorf("%q: log %s", how, log)
		}
	}
}

// TestKeeperEndsAnAgentThatItFound: a supervisor hears the agent that another one has left behind.
func TestKeeperEndsAnAgentThatItFound(t *testing.T) {
	k := newKept(t)
	w, err := service.NewWatch(k.Base, short())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	left := exec.Command(k.Program(), "run")
	left.Env = append(os.Environ(), "NOTIFY_SOCKET="+w.Name())
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- left.Wait() }()
	t.Cleanup(func() { left.Process.Kill() })
	k.runs(1)
	end := k.keeper()
	k.until("it is heard", func() bool { _, err := os.Stat(filepath.Join(k.Base, "heard")); return err == nil })
	k.put("hang")
	<-gone
	k.runs(2)
	if log := end(); !strings.Contains(log, "the agent that ran here already hangs") {
		t.Errorf("log %s", log)
	}
}

// onWarning calls itself with each warning that is logged.
type onWarning func(text string)

func (onWarning) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }

func (f onWarning) Handle(_ context.Context, r slog.Record) error { f(r.Message); return nil }

func (f onWarning) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f onWarning) WithGroup(string) slog.Handler { return f }

// TestNextAgentIsSpared: what takes the place of an agent that hangs, before that is ended, is not ended for it.
func TestNextAgentIsSpared(t *testing.T) {
	k := newKept(t)
	w, err := service.NewWatch(k.Base, short())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	start := func() (*exec.Cmd, <-chan error) {
		agent := exec.Command(k.Program(), "run")
		agent.Env = append(os.Environ(), "NOTIFY_SOCKET="+w.Name())
		if err := agent.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan error, 1)
		go func() { gone <- agent.Wait() }()
		t.Cleanup(func() { agent.Process.Kill() })
		return agent, gone
	}
	hung, gone := start()
	k.until("it is heard", func() bool { _, err := os.Stat(filepath.Join(k.Base, "heard")); return err == nil })
	k.put("hang")
	var next <-chan error
	w.EndHung(t.Context(), slog.New(onWarning(func(text string) {
		hung.Process.Kill()
		<-gone
		_, next = start()
		k.until("the next agent runs", func() bool { return service.Manager{Base: k.Base}.Agent() != 0 })
	})))
	select {
	case err := <-next:
		t.Errorf("the next agent was ended: %v", err)
	case <-time.After(50 * time.Millisecond): // for its end to be seen
	}
}

// TestSilenceOfOthers: an agent that has given no sign is ended only if this process has started it.
func TestSilenceOfOthers(t *testing.T) {
	w, err := service.NewWatch(privateDir(t), service.Patience{Silence: time.Millisecond, Look: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if w.Hangs(ctx, 0) {
		t.Error("ended without a sign")
	}
	if !w.Hangs(t.Context(), time.Millisecond) {
		t.Error("one that was started is waited for")
	}
}

// TestForeignSigns: only this user's signs count, because anybody can write to the socket.
func TestForeignSigns(t *testing.T) {
	w, err := service.NewWatch(privateDir(t), service.Patience{Silence: time.Hour, Look: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	for uid, want := range map[int]time.Duration{os.Geteuid(): time.Hour, os.Geteuid() + 1: 0} {
		if uid != os.Geteuid() && os.Geteuid() != 0 {
			continue // only root may write as somebody else
		}
		as := syscall.UnixCredentials(&syscall.Ucred{Pid: int32(os.Getpid()), Uid: uint32(uid), Gid: 0})
		if err := syscall.Sendmsg(socket, []byte("WATCHDOG=1"), as, &syscall.SockaddrUnix{Name: w.Name()}, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Hear(); err != nil || got != want {
			t.Errorf("of user %d: %v, %v, want %v", uid, got, err, want)
		}
	}
}

// TestNoiseHidesNothing: who writes to the socket all the time hides no agent that hangs.
func TestNoiseHidesNothing(t *testing.T) {
	w, err := service.NewWatch(privateDir(t), service.Patience{Silence: time.Hour, Look: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	noise, err := net.Dial("unixgram", w.Name())
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer noise.Close()
	writing.Go(func() {
		for _, err := noise.Write([]byte("STATUS=here")); err == nil; {
			_, err = noise.Write([]byte("STATUS=here"))
		}
	})
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if !w.Hangs(ctx, 100*time.Millisecond) {
		t.Error("an agent that hangs is not found beside noise")
	}
}

// TestWatchWithoutSocket: if nothing can be heard, the agent runs all the same.
func TestWatchWithoutSocket(t *testing.T) {
	k := newKept(t)
	first, err := service.NewWatch(k.Base, short())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for _, base := range []string{k.Base, filepath.Join(k.Base, "none")} {
		w, err := service.NewWatch(base, short())
		if err == nil {
			t.Errorf("%s: no error", base)
		}
		w.Close()
	}
	k.put("hang")
	end := k.keeper()
	k.runs(1)
	if log := end(); !strings.Contains(log, "cannot be heard") {
		t.Errorf("log %s", log)
	}
}

func TestAllows(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"WATCHDOG=1": time.Minute, "WATCHDOG=1\nREADY=1\nSTATUS=online": time.Minute, "READY=1": time.Minute, "": 0, "STOPPING=1": 0,
		"STATUS=WATCHDOG=1": 0, "EXTEND_TIMEOUT_USEC=600000000\nSTATUS=enrolling": 10 * time.Minute,
		"EXTEND_TIMEOUT_USEC=18446744073709551615": 0, "EXTEND_TIMEOUT_USEC=9223372036854775807": time.Hour, "EXTEND_TIMEOUT_USEC=-1": 0,
	} {
		if got := service.Allows(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzAllows(f *testing.F) {
	f.Add("WATCHDOG=1\nEXTEND_TIMEOUT_USEC=99999999999")
	f.Fuzz(func(t *testing.T, text string) {
		if got := service.Allows(text); got < 0 || got > time.Hour {
			t.Errorf("%q: %v", text, got)
		}
	})
}
