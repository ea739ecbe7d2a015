package wire

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check refuses what useradd or sshd would not take, or would read in another way.
func (p *ProvisionUser) Check() error {
	if !UserName(p.Username) {
		return badParam("username", p.Username, "1 to 32 lower-case letters, digits, dashes and underscores; the first is no digit and no dash")
	}
	for _, line := range p.Keys {
		if !publicKeyLine(line) {
			return badParam("ssh_public_keys", line, "lines such as ssh-ed25519 AAAA... COMMENT, without options; @FILE reads them from a file")
		}
	}
	for _, group := range p.Groups {
		if !UserName(group) || group == "root" {
			return badParam("groups", group, "names of groups, and not root")
		}
	}
	if p.Shell != "" && !plainPath(p.Shell) {
		return badParam("shell", p.Shell, "the absolute path of a program")
	}
	return cmp.Or(checkAllocation(p.Allocation), p.TaskTime.Check())
}

// Check refuses params that name no account, or both one and all.
func (p *DeprovisionUser) Check() error {
	if p.All == (p.Username != "") {
		return badParam("username", p.Username, "the name of an account, or use all=true")
	}
	if p.Username != "" && !UserName(p.Username) {
		return badParam("username", p.Username, "the name of an account")
	}
	return p.TaskTime.Check()
}

// Check refuses what a container runtime would not take, or would read in another way.
func (p *WorkloadLaunch) Check() error {
	return cmp.Or(p.checkWhat(), checkEnvironment(p.Env, p.SecretEnv), checkGPUs(p.GPUs), p.checkReach(), checkAllocation(p.Allocation),
		p.TaskTime.Check())
}

func (p *WorkloadLaunch) checkWhat() error {
	switch {
	case !wordForm(p.Name, MaxNameLength):
		return badParam("name", p.Name, "the form of a node's name")
	case !imageByDigest(p.Image):
		return badParam("image", p.Image, "HOST/PATH[:TAG]@sha256:DIGEST: a tag alone can change, a digest cannot")
	case hasZero(p.Command):
		return badParam("command", strings.Join(p.Command, " "), "words without a zero byte")
	case p.User != "" && !userInside(p.User):
		return badParam("user", p.User, "UID[:GID] or a name")
	case p.Workdir != "" && !plainPath(p.Workdir):
		return badParam("workdir", p.Workdir, "an absolute path")
	case p.Login != "" && !wordForm(p.Login, MaxNameLength):
		return badParam("registry_secret", p.Login, "the name of a secret")
	case !slices.Contains([]string{"", "docker", "podman", "nerdctl"}, p.Runtime):
		return badParam("runtime", p.Runtime, "docker, podman or nerdctl")
	case p.ShmMiB < 0:
		return badParam("shm_mib", strconv.Itoa(p.ShmMiB), "a number of MiB")
	case p.MemoryMiB < 0:
		return badParam("memory_mib", strconv.Itoa(p.MemoryMiB), "a number of MiB")
	}
	return nil
}

func checkEnvironment(env, secrets map[string]string) error {
	for name, value := range env {
		if !variableName(name) || strings.ContainsRune(value, 0) {
			return badParam("env", name, "NAME=text, with a name of letters, digits and underscores")
		}
	}
	for name, secret := range secrets {
		if _, twice := env[name]; twice || !variableName(name) || !wordForm(secret, MaxNameLength) {
			return badParam("secret_env", name, "NAME=SECRET, with the name of a secret; env may not set the same NAME")
		}
	}
	return nil
}

func checkGPUs(gpus []string) error {
	if len(gpus) > MaxGPUs {
		return badParam("gpus", strconv.Itoa(len(gpus)), fmt.Sprintf("at most %d, each once", MaxGPUs))
	}
	for _, gpu := range gpus {
		if gpu != AllGPUs && !gpuUUID(gpu) || gpu == AllGPUs && len(gpus) > 1 {
			return badParam("gpus", gpu, "UUIDs such as GPU-5d2f..., or all alone; muster node gpus shows them")
		}
	}
	return nil
}

// checkReach refuses ports and folders that are none.
func (p *WorkloadLaunch) checkReach() error {
	for _, text := range p.Ports {
		if !portMapping(text) {
			return badParam("ports", text, "[ADDRESS:]HOST:CONTAINER[/udp], such as 127.0.0.1:8080:80")
		}
	}
	for _, text := range p.Mounts {
		if _, err := ParseMount(text); err != nil {
			return err
		}
	}
	return nil
}

// checkAllocation refuses what is not the id of an allocation, if there is one.
func checkAllocation(id string) error {
	if id != "" && CheckTaskID(id) != nil {
		return badParam("allocation", id, "the id of an allocation: 16 lower-case letters and digits 2 to 7")
	}
	return nil
}

// Mount is one entry of WorkloadLaunch.Mounts.
type Mount struct {
	Host      string // absolute and clean
	Container string // absolute and clean
	ReadOnly  bool
}

// ParseMount reads HOST:CONTAINER[:ro]. It refuses a path that is not clean, because the path could name another folder than it seems to.
// The node itself looks at links.
func ParseMount(text string) (Mount, error) {
	parts := strings.Split(text, ":")
	readOnly := len(parts) == 3 && parts[2] == "ro"
	if len(parts) < 2 || len(parts) > 2 && !readOnly || !plainPath(parts[0]) || !plainPath(parts[1]) || parts[0] == "/" || parts[1] == "/" {
		return Mount{}, badParam("mounts", text, "HOST:CONTAINER[:ro] with absolute paths without .. and without special characters")
	}
	return Mount{parts[0], parts[1], readOnly}, nil
}

// Check refuses what the kernel would not start, or would read in another way.
func (p *WorkloadProcess) Check() error {
	switch {
	case !wordForm(p.Name, MaxNameLength):
		return badParam("name", p.Name, "the form of a node's name")
	case !argumentsFit(p.Command):
		return badParam("command", strings.Join(p.Command, " "), commandForm)
	case p.User != "" && !UserName(p.User):
		return badParam("user", p.User, "the name of a user of the node")
	case p.Workdir != "" && !plainPath(p.Workdir):
		return badParam("workdir", p.Workdir, "an absolute path")
	case p.GPUCount < 0 || p.GPUCount > MaxGPUs || p.GPUCount > 0 && len(p.GPUs) > 0:
		return badParam("gpu_count", strconv.Itoa(p.GPUCount), "how many GPUs, or use gpus to name them")
	}
	return cmp.Or(checkGPUs(p.GPUs), checkEnvironment(p.Env, p.SecretEnv), checkAllocation(p.Allocation), p.TaskTime.Check())
}

// Check refuses params that name no workload, or both one and all.
func (p *WorkloadStop) Check() error {
	if p.All == (p.Name != "") {
		return badParam("name", p.Name, "the name of a workload, or use all=true")
	}
	if p.Name != "" && !wordForm(p.Name, MaxNameLength) {
		return badParam("name", p.Name, "the name of a workload")
	}
	if p.Grace < 0 || p.Grace > 3600 {
		return badParam("grace_seconds", strconv.Itoa(p.Grace), "0 to 3600")
	}
	return p.TaskTime.Check()
}

// Check refuses a text that is not a workload's name.
func (p *WorkloadStatus) Check() error {
	if p.Name != "" && !wordForm(p.Name, MaxNameLength) {
		return badParam("name", p.Name, "the name of a workload")
	}
	return p.TaskTime.Check()
}

// Check refuses a text that is not a workload's name.
func (p *WorkloadLogs) Check() error {
	if !wordForm(p.Name, MaxNameLength) {
		return badParam("name", p.Name, "the name of a workload")
	}
	if p.Lines < 0 {
		return badParam("lines", strconv.Itoa(p.Lines), "a number of lines")
	}
	return p.TaskTime.Check()
}

// Check refuses a time that is out of bounds. Params that have nothing else to check take it as their own.
func (t TaskTime) Check() error {
	if t.TimeoutSeconds < 0 || t.TimeoutSeconds > int(MaxTaskLife/time.Second) {
		return badParam("timeout_seconds", fmt.Sprint(t.TimeoutSeconds), "a number of seconds, up to a week")
	}
	return nil
}

func badParam(name, value, want string) error {
	return Refuse(CodeTaskParamsInvalid, fmt.Sprintf("the param %s cannot be %.80q", name, value), "it takes "+want)
}

// UserName reports whether s is a name that useradd of Debian takes by default, without the dollar sign at the end.
func UserName(s string) bool {
	return len(s) >= 1 && len(s) <= 32 && strings.IndexByte("0123456789-", s[0]) < 0 && only(s, "_-") && strings.ToLower(s) == s
}

// publicKeyLine accepts TYPE BASE64 [COMMENT] of OpenSSH's key types. The type in the line is the one inside the key. Options in front
// could name a command, so a line with options is refused.
func publicKeyLine(line string) bool {
	fields := strings.Fields(line)
	if len(fields) < 2 || len(line) > 16<<10 || strings.ContainsAny(line, "\r\n\x00") {
		return false
	}
	kinds := []string{
		"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "sk-ssh-ed25519@openssh.com",
		"sk-ecdsa-sha2-nistp256@openssh.com",
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	name := fields[0]
	return err == nil && slices.Contains(kinds, name) && len(blob) > 4+len(name) && string(blob[4:4+len(name)]) == name
}

// userInside accepts UID[:GID] and names, as --user of the runtimes takes them.
func userInside(s string) bool {
	user, group, both := strings.Cut(s, ":")
	return wordForm(user, 32) && (!both || wordForm(group, 32))
}

func variableName(s string) bool {
	return s != "" && len(s) <= MaxLabelValue && s[0] > '9' && only(s, "_")
}

// gpuUUID accepts what nvidia-smi -L names: GPU-<uuid> and MIG-<uuid>.
func gpuUUID(s string) bool {
	prefix, id, _ := strings.Cut(s, "-")
	if prefix != "GPU" && prefix != "MIG" || len(id) < 8 || len(id) > 64 {
		return false
	}
	return strings.Trim(id, "0123456789abcdefABCDEF-") == ""
}

// portMapping accepts [ADDRESS:]HOST:CONTAINER[/tcp|/udp] with an IPv4 address.
func portMapping(s string) bool {
	ports, protocol, said := strings.Cut(s, "/")
	if said && protocol != "tcp" && protocol != "udp" {
		return false
	}
	parts := strings.Split(ports, ":")
	if len(parts) == 3 {
		if strings.Trim(parts[0], "0123456789.") != "" || strings.Count(parts[0], ".") != 3 {
			return false
		}
		parts = parts[1:]
	}
	return len(parts) == 2 && portNumber(parts[0]) && portNumber(parts[1])
}

func portNumber(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 1 && n <= 65535 && strconv.Itoa(n) == s
}

// plainPath accepts an absolute, clean path of characters that no program reads in a special way.
func plainPath(s string) bool {
	return strings.HasPrefix(s, "/") && path.Clean(s) == s && len(s) <= 1024 && only(s, "/._-+@=")
}
