package host

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// Seen is what the files of this machine say of a process, whoever owns it. Values that they do not say are empty.
type Seen struct {
	UID       int    // -1: not known
	User      string // its name, or the number where it has none
	Program   string // what it calls itself, at first its file's name
	Container string // the first 12 digits of its id, or its name with LXC
	Login     int    // the UID of the login or the user's service manager that began it; -1: none did
}

// See looks at a process of the machine. It returns nothing for a process that is gone or hidden from the agent.
func (t Tree) See(pid int) Seen {
	folder := "proc/" + strconv.Itoa(pid) + "/"
	s := Seen{UID: -1, Program: wire.Plain(t.Text(folder+"comm"), wire.MaxProcessText)}
	for line := range strings.Lines(t.Text(folder + "status")) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "Uid:" {
			if uid, err := strconv.ParseUint(words[1], 10, 32); err == nil {
				s.UID = int(uid)
				s.User = t.userName(words[1])
			}
		}
	}
	s.Container, s.Login = ParseCgroups(t.Text(folder + "cgroup"))
	return s
}

// userName is the name of a UID, or the UID itself where it has none.
func (t Tree) userName(uid string) string {
	for line := range strings.Lines(t.Text("etc/passwd")) {
		if fields := strings.Split(line, ":"); len(fields) > 2 && fields[2] == uid {
			return cmp.Or(wire.Plain(fields[0], wire.MaxProcessText), uid)
		}
	}
	return uid
}

// ParseCgroups finds out from /proc/PID/cgroup in which container a process is, and whose login began it (-1: nobody's). If a container is
// in another one, it returns the inner one.
//
//	0::/system.slice/docker-<64 digits>.scope
//	0::/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-<64 digits>.scope/container
//	0::/kubepods.slice/kubepods-pod<uid>.slice/cri-containerd-<64 digits>.scope
//	4:memory:/docker/<64 digits>
func ParseCgroups(text string) (container string, login int) {
	login = -1
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		parts := strings.Split(fields[2], "/")
		for i, part := range parts {
			if found := containerOf(part, parts[max(i-1, 0)]); found != "" {
				container = found
			}
		}
		if len(parts) > 2 && parts[1] == "user.slice" {
			number, isUser := strings.CutPrefix(strings.TrimSuffix(parts[2], ".slice"), "user-")
			if uid, err := strconv.ParseUint(number, 10, 32); isUser && err == nil {
				login = int(uid)
			}
		}
	}
	return container, login
}

// engines are what stands before the id of a container. What else stands there, such as libpod-conmon, is not in the container.
func engines() []string {
	return []string{"", "docker", "libpod", "containerd", "cri-containerd", "crio", "nerdctl"}
}

// containerOf is the container that a part of a path is of; empty: it is of none.
func containerOf(part, before string) string {
	const long, short = 64, 12
	if name, isLXC := strings.CutPrefix(part, "lxc.payload."); isLXC {
		return wire.Plain(name, wire.MaxProcessText)
	}
	if before == "lxc" {
		return wire.Plain(part, wire.MaxProcessText)
	}
	name := strings.TrimSuffix(part, ".scope")
	if len(name) < long {
		return ""
	}
	id := name[len(name)-long:]
	engine := strings.TrimRight(name[:len(name)-long], "-:")
	engine = engine[strings.LastIndexByte(engine, ':')+1:]
	if strings.Trim(id, "0123456789abcdef") != "" || !slices.Contains(engines(), engine) {
		return ""
	}
	return id[:short]
}

// GPUFiles returns the files by which a process uses GPUs, such as nvidia0 and dri/renderD128, each once. It returns no files for a process
// that has ended.
func (t Tree) GPUFiles(pid int) (names []string, err error) {
	folder := t.Path("proc/" + strconv.Itoa(pid) + "/fd")
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(folder, e.Name()))
		if name := gpuFile(target); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// gpuFile is the name of a file by which a program uses a GPU; empty: it is none.
func gpuFile(path string) string {
	name, found := strings.CutPrefix(path, "/dev/")
	number, isNVIDIA := strings.CutPrefix(name, "nvidia")
	render, isRender := strings.CutPrefix(name, "dri/renderD")
	switch {
	case !found:
	case isNVIDIA && isNumber(number), isRender && isNumber(render):
		return name
	}
	return ""
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
