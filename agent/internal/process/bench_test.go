package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/account"
	"muster/agent/internal/process"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

const secret = "hunter2-Zq8"

// TestMain makes this program a keeper, or an agent that is to be killed, where it is started as one.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "keep":
		if err := process.Keep(os.Args[3], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 4 && os.Args[1] == "agent":
		o := host(os.Args[2]).Start(context.Background(), job("t-agent", &bytes.Buffer{}), &wire.WorkloadProcess{Name: "x",
			Command: []string{"sh", "-c", os.Args[3]}}, nil)
		fmt.Println(o.ExitCode, o.Error)
		select {}
	case len(os.Args) == 2 && os.Args[1] == "halve":
		halve()
	}
	os.Exit(m.Run())
}

// halve ends the first thread of this process, and no other.
func halve() {
	runtime.LockOSThread()
	if syscall.Gettid() != os.Getpid() {
		_ = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	go time.Sleep(time.Hour)
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

func host(state string) process.Host {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return process.Host{State: state, Keeper: []string{program, "keep", "--folder"}, Settle: 300 * time.Millisecond,
		Accounts: &account.Accounts{State: state, UID: os.Geteuid()}}
}

type safeBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *safeBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(data)
}

func job(id string, out interface{ Write([]byte) (int, error) }) task.Job {
	return task.Job{ID: id, Type: wire.TaskWorkloadProcess, Output: out, Secrets: func(context.Context) (map[string]string, error) {
		return map[string]string{"token": secret}, nil
	}}
}

// bench is a machine with runs that end with the test.
type bench struct {
	*testing.T
	process.Host
	out *safeBuffer
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, Host: host(t.TempDir()), out: &safeBuffer{}}
	t.Cleanup(func() {
		for _, r := range b.Runs() {
			if err := b.Stop(context.Background(), r.Name, 0); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// start starts a program. The task's name is on this bench alone: what is left of a run is found by it, on the whole machine.
func (b *bench) start(p wire.WorkloadProcess) task.Outcome {
	return b.Start(b.Context(), job("t-"+p.Name+"-"+b.State, b.out), &p, nil)
}

// sh starts a line of a shell that goes on.
func (b *bench) sh(name, line string) wire.Run {
	b.Helper()
	if o := b.start(wire.WorkloadProcess{Name: name, Command: []string{"sh", "-c", line}}); o.Error != "" || o.ExitCode != 0 {
		b.Fatalf("%s: %+v\n%s", line, o, b.out)
	}
	r, found := b.Find(name)
	if !found {
		b.Fatalf("%s is not found", name)
	}
	return r
}

// await waits for a state.
func (b *bench) await(name, state string) wire.Run {
	b.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r, _ := b.Find(name)
		if r.State == state {
			return r
		}
		if time.Since(begun) > 20*time.Second {
			b.Fatalf("%s is %q (%s), want %q", name, r.State, r.Why, state)
		}
	}
}

func (b *bench) tail(name string) string {
	b.Helper()
	o, err := b.Output(name)
	var out bytes.Buffer
	if err == nil {
		_, err = o.Tail(100, &out)
	}
	if err != nil {
		b.Fatal(err)
	}
	return out.String()
}

// awaitText waits until a run has written something.
func (b *bench) awaitText(name, text string) string {
	b.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		out := b.tail(name)
		if strings.Contains(out, text) {
			return out
		}
		if time.Since(begun) > 20*time.Second {
			b.Fatalf("%s has written %q, want %q in it", name, out, text)
		}
	}
}

// keeping reads which processes a run has.
func (b *bench) keeping(name string) (keeper, main int) {
	b.Helper()
	var k struct{ Keeper, Main struct{ PID int } }
	raw, err := os.ReadFile(filepath.Join(b.State, process.Folder, name, "keeper.json"))
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	if err != nil {
		b.Fatal(err)
	}
	return k.Keeper.PID, k.Main.PID
}

func lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z")
}

func (b *bench) gone(pid int) {
	b.Helper()
	for begun := time.Now(); lives(pid); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			b.Fatalf("process %d goes on", pid)
		}
	}
}
