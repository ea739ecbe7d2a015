package owner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/owner"
	"muster/agent/wire"
)

// ids of containers
var (
	ours    = "aaaaaaaaaaaa" + strings.Repeat("0", 52)
	another = "bbbbbbbbbbbb" + strings.Repeat("0", 52)
)

// machine has processes, accounts, programs and containers.
type machine struct {
	*testing.T
	root  string
	asked int // how often the engines were asked
	mute  error
	owner.Finder
}

func newMachine(t *testing.T) *machine {
	m := &machine{T: t, root: t.TempDir()}
	m.put("etc/passwd", "ada:x:1001:1001::/home/ada:/bin/sh\neve:x:1002:1002::/home/eve:/bin/sh\n")
	m.Finder = owner.Finder{Root: m.root, Hides: func() bool { return false },
		Accounts: func() map[int]string { return map[int]string{1001: "of-ada"} },
		Program: func(pid int) string {
			if pid == 70 {
				return "of-program"
			}
			return ""
		},
		Containers: func(context.Context) (map[string]string, error) {
			m.asked++
			if m.mute != nil {
				return map[string]string{}, m.mute
			}
			return map[string]string{ours[:12]: "of-container"}, nil
		}}
	return m
}

func (m *machine) put(name, text string) {
	m.Helper()
	path := filepath.Join(m.root, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) runs(pid, uid int, cgroup string) {
	m.Helper()
	m.put(fmt.Sprintf("proc/%d/comm", pid), "python3\n")
	m.put(fmt.Sprintf("proc/%d/status", pid), fmt.Sprintf("Uid:\t%d\t0\t0\t0\n", uid))
	m.put(fmt.Sprintf("proc/%d/cgroup", pid), "0::"+cgroup+"\n")
}

// who is the user, program, container and allocation of a process.
func (m *machine) who(pid int) string {
	list := []wire.GPUProcess{{PID: pid, MemoryMiB: new(int64(7))}}
	m.Fill(m.Context(), list)
	p := list[0]
	if p.PID != pid || *p.MemoryMiB != 7 {
		m.Errorf("it has become %+v", p)
	}
	return strings.Join([]string{p.User, p.Program, p.Container, p.Allocation}, " ")
}

// TestAllocation: an allocation is told by what muster has made for it, and by nothing that another user can imitate.
func TestAllocation(t *testing.T) {
	t.Parallel()
	login := "/user.slice/user-%d.slice/"
	for name, c := range map[string]struct {
		pid, uid     int
		cgroup, want string
	}{
		"an account":                   {10, 1001, fmt.Sprintf(login, 1001) + "session-1.scope", "ada python3  of-ada"},
		"an account in a batch system": {10, 1001, "/system.slice/slurmstepd.scope/job_1", "ada python3  of-ada"},
		"an account as root":           {10, 0, fmt.Sprintf(login, 1001) + "session-1.scope", "0 python3  of-ada"},
		"a container of an account": {10, 100_999, fmt.Sprintf(login, 1001) + "libpod-" + another + ".scope",
			"100999 python3 bbbbbbbbbbbb of-ada"},
		"somebody else":                    {10, 1002, fmt.Sprintf(login, 1002) + "session-2.scope", "eve python3  "},
		"muster's program":                 {70, 0, "/system.slice/muster-agent.service", "0 python3  of-program"},
		"muster's container":               {10, 0, "/system.slice/docker-" + ours + ".scope", "0 python3 aaaaaaaaaaaa of-container"},
		"another container":                {10, 0, "/system.slice/docker-" + another + ".scope", "0 python3 bbbbbbbbbbbb "},
		"a container that runs as ada":     {10, 1001, "/system.slice/docker-" + another + ".scope", "ada python3 bbbbbbbbbbbb "},
		"eve's container that runs as ada": {10, 1001, fmt.Sprintf(login, 1002) + "libpod-" + another + ".scope", "ada python3 bbbbbbbbbbbb "},
		"one that is named after muster's": {10, 1002, fmt.Sprintf(login, 1002) + "docker-" + ours + ".scope", "eve python3 aaaaaaaaaaaa "},
		"a process that is gone":           {99, 0, "", "   "},
	} {
		m := newMachine(t)
		if c.pid != 99 {
			m.runs(c.pid, c.uid, c.cgroup)
		}
		if got := m.who(c.pid); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestHidden: where processes can be hidden, a number may be of another namespace. Then only a process that has a GPU's file open counts.
func TestHidden(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.Hides = func() bool { return true }
	m.runs(10, 1001, "/")
	if got := m.who(10); got != "   " {
		t.Errorf("of a process without a GPU: got %q", got)
	}
	m.put("proc/10/fd/.keep", "")
	if err := os.Symlink("/dev/nvidia0", filepath.Join(m.root, "proc/10/fd/3")); err != nil {
		t.Fatal(err)
	}
	if got := m.who(10); got != "ada python3  of-ada" {
		t.Errorf("of a process with one: got %q", got)
	}
}

// TestAskedOnce: the engines are asked once for each container, at most once for each list, and again if they did not answer.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.runs(10, 0, "/system.slice/docker-"+ours+".scope")
		m.runs(11, 0, "/system.slice/docker-"+another+".scope")
		m.mute = errors.New("docker does not answer")
		want := func(what, allocation string, asked int) {
			t.Helper()
			got := m.who(10)
			m.who(11)
			if !strings.HasSuffix(got, "aaaaaaaaaaaa "+allocation) || m.asked != asked {
				t.Errorf("%s: got %q after %d questions, want %q after %d", what, got, m.asked, allocation, asked)
			}
		}
		want("a mute engine", "", 1)
		m.mute = nil
		want("in the same look", "", 1)
		time.Sleep(5 * time.Minute)
		want("in the next one", "of-container", 2)
		for range 3 {
			time.Sleep(5 * time.Minute)
			want("when both are known", "of-container", 3)
		}
	})
}

// TestNobodyToAsk: without anybody who knows of allocations, users are named all the same.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.Finder = owner.Finder{Root: m.root, Hides: m.Hides}
	m.runs(10, 1001, "/system.slice/docker-"+ours+".scope")
	m.runs(70, 1001, "/")
	if got := m.who(10) + "," + m.who(70); got != "ada python3 aaaaaaaaaaaa ,ada python3  " {
		t.Errorf("got %q", got)
	}
}
