package diag

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/child"
	"muster/agent/internal/service"
	"muster/agent/internal/workload"
)

// sources is the table of all files of the archive but the manifest.
func (c Collector) sources() []source {
	logs := service.Layout{Base: c.State}
	kernel := []string{"nvrm", "xid", "nvidia", "oom", "out of memory", "killed process", "hardware error", "mce:", "i/o error"}
	nvidia := []string{"nvidia", "nouveau"}
	all := []source{
		{file: "agent/status.json", read: c.readStatus},
		{file: "agent/identity.json", read: c.readNode},
		{file: "agent/settings.env", read: tail(c.Settings)}, // without a name it is not there
		{file: "agent/tasks.txt", read: c.readTasks},
		{file: "agent/update.json", read: tail(filepath.Join(c.State, service.UpdateFile))},
		{file: "agent/agent.log", limit: 4 << 20, read: tail(logs.Log())},
		{file: "agent/agent.log.1", limit: 4 << 20, read: tail(logs.Log() + ".1")},
		{file: "agent/supervisor.log", limit: 4 << 20, read: tail(logs.SupervisorLog())},
		{file: "agent/unit.txt", read: c.systemctl("status", "--no-pager", "--full", service.Name)},
		{file: "agent/unit-journal.txt", limit: 4 << 20, read: c.journal("--no-pager", "--output=short-iso", "--lines=5000")},
		{file: "gpu/nvidia-smi-q.txt", limit: 2 << 20, time: time.Minute, read: c.Describe},
		{file: "gpu/last-look.json", read: c.readLook},
		{file: "gpu/driver.txt", path: "/proc/driver/nvidia/version"},
		{file: "gpu/lspci.txt", read: only(nvidia, tool("lspci", "-nn"))},
		{file: "gpu/modules.txt", read: only(nvidia, tail(c.path("/proc/modules")))},
		{file: "gpu/dmesg.txt", limit: 2 << 20, read: only(kernel, tool("dmesg"))},
		{file: "system/uname.txt", command: []string{"uname", "-a"}},
		{file: "system/os-release.txt", path: "/etc/os-release"},
		{file: "system/cmdline.txt", path: "/proc/cmdline"},
		{file: "system/uptime.txt", command: []string{"uptime"}},
		{file: "system/memory.txt", path: "/proc/meminfo"},
		{file: "system/pressure.txt", path: "/proc/pressure/memory"},
		{file: "system/mounts.txt", path: "/proc/self/mounts"},
		{file: "system/df.txt", command: []string{"df", "-h"}},
		{file: "system/inodes.txt", command: []string{"df", "-i"}},
		{file: "system/clock.txt", command: []string{"timedatectl"}},
		{file: "network/addresses.txt", command: []string{"ip", "addr"}},
		{file: "network/routes.txt", command: []string{"ip", "route"}},
		{file: "network/resolv.conf.txt", path: "/etc/resolv.conf"},
		{file: "containers/nvidia-ctk.txt", command: []string{"nvidia-ctk", "--version"}},
		{file: "containers/nvidia-container-cli.txt", command: []string{"nvidia-container-cli", "--version"}},
	}
	for _, runtime := range []string{"docker", "podman", "nerdctl"} {
		all = append(all,
			source{file: "containers/" + runtime + "-version.txt", command: []string{runtime, "--version"}},
			source{file: "containers/" + runtime + "-ours.txt", command: []string{runtime, "ps", "--all", "--no-trunc",
				"--filter", "label=" + workload.Label, "--format", "{{.ID}} {{.Names}} {{.Image}} {{.Status}}"}})
	}
	for i := range all {
		switch s := &all[i]; {
		case s.path != "":
			s.read = tail(c.path(s.path))
		case len(s.command) > 0:
			s.read = tool(s.command[0], s.command[1:]...)
		}
	}
	return all
}

// systemctl asks the systemd that runs the agent. Exit code 3 says that the unit does not run, with what it says about that.
func (c Collector) systemctl(args ...string) func(context.Context) ([]byte, error) {
	if c.User {
		args = append([]string{"--user"}, args...)
	}
	ask := tool("systemctl", args...)
	return func(ctx context.Context) ([]byte, error) {
		text, err := ask(ctx)
		var exit *child.ExitError
		if errors.As(err, &exit) && exit.Code == 3 {
			return text, nil
		}
		return text, err
	}
}

func (c Collector) journal(args ...string) func(context.Context) ([]byte, error) {
	if c.User {
		return tool("journalctl", append(args, "--user-unit="+service.Name)...)
	}
	return tool("journalctl", append(args, "--unit="+service.Name)...)
}

// maxRead is how much of a source is read. The pack keeps less.
const maxRead = 5 << 20

// tool runs a program of the machine, and gives both its streams.
func tool(name string, args ...string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		said := child.Bounded{Most: maxRead}
		env := append(child.Environ(), "LC_ALL=C", "SYSTEMD_COLORS=0")
		err := child.Run(ctx, child.Command{Program: name, Args: args, Env: env, Stdout: &said, Stderr: &said, Grace: time.Second})
		text := said.Kept
		if said.Cut { // half a line could be half a secret
			text = text[:bytes.LastIndexByte(text, '\n')+1]
		}
		return text, err
	}
}

// tail reads a file. Of a long one it gives the end, from the beginning of a line.
func tail(path string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		return disk.ReadEnd(path, 0, maxRead)
	}
}

// only keeps the lines with one of these words. Of a source that failed it keeps all, because they say why.
func only(words []string, read func(context.Context) ([]byte, error)) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		text, err := read(ctx)
		if err != nil {
			return text, err
		}
		var kept bytes.Buffer
		for line := range bytes.Lines(text) {
			lower := bytes.ToLower(line)
			if slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(lower, []byte(word)) }) {
				kept.Write(line)
			}
		}
		return kept.Bytes(), nil
	}
}
