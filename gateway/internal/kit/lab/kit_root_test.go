//go:build real

package lab

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// keyring is where Debian's package debian-archive-keyring keeps the keys of its archives.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// Root is a kind of file system that a box starts with.
type Root struct {
	name     string
	packages string
	systemd  bool // its first process is systemd
	bare     bool // boxes get nothing of this root but busybox
	nests    bool // boxes may run containers, as a real machine may
}

// Systemd is a Debian machine as people rent or rack it.
func Systemd() Root {
	return Root{name: "systemd", packages: "systemd,systemd-sysv,dbus,ca-certificates,cron,curl,iproute2,openssh-server,procps", systemd: true}
}

// Logins is a Debian machine with systemd that people log in to: each has a systemd of their own while they are there, and
// polkit says who may keep it.
func Logins() Root {
	r := Systemd()
	return Root{name: "logins", packages: r.packages + ",libpam-systemd,polkitd", systemd: true}
}

// Containers is a Debian machine with systemd that runs containers with podman, and a registry for their images. Its boxes need
// Podman.
func Containers() Root {
	r := Systemd()
	return Root{name: "containers", packages: r.packages + ",busybox-static,docker-registry,podman,runc", systemd: true, nests: true}
}

// Accounts is a Debian machine with sudo.
func Accounts() Root {
	return Root{name: "accounts", packages: Systemd().packages + ",sudo", systemd: true}
}

// OpenRC is a machine whose services OpenRC runs, once a shell has started that.
func OpenRC() Root {
	return Root{name: "openrc", packages: Plain().packages + ",openrc"}
}

// Plain is a container's file system: no init system, and what the other tests need of a machine without one.
func Plain() Root {
	return Root{name: "plain", packages: "busybox-static,ca-certificates,cron,curl,iproute2,nginx-light,openssh-server,procps,wget"}
}

// Busybox is a small image's file system: nothing but busybox.
func Busybox() Root {
	r := Plain()
	r.bare = true
	return r
}

// path gives the root's directory, which is made on first use and kept for the next run.
func (r Root) path(l *Lab) string {
	l.T.Helper()
	path, err := r.made()
	if err != nil {
		l.T.Fatalf("root file system %q: %v", r.name, err)
	}
	if !r.bare {
		return path
	}
	bare := filepath.Join(l.Dir, "busybox")
	if err := busyboxTree(filepath.Join(path, "bin", "busybox"), bare); err != nil {
		l.T.Fatalf("busybox tree: %v", err)
	}
	return bare
}

// busyboxTree makes a file system around one busybox.
func busyboxTree(busybox, root string) error {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	for _, dir := range []string{"bin", "dev", "etc", "proc", "root", "run", "srv", "sys", "tmp", "usr", "var"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/os-release": "ID=busybox\n"} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(root, "bin", "busybox"), program, 0o755); err != nil {
		return err
	}
	out, err := exec.Command("chroot", root, "/bin/busybox", "--install", "-s", "/bin").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// made gives the root's directory in the cache. Its name holds a digest of the packages, so that other packages make another root. The
// lock keeps two test processes from making the same root at once.
func (r Root) made() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(r.packages))
	path := filepath.Join(cache, fmt.Sprintf("%s-%x", r.name, sum[:4]))
	unlock, err := locked(path)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return path, err
	}
	return path, r.build(path)
}

// build makes the root beside its place and moves it there when it is whole.
func (r Root) build(path string) error {
	sources, release, err := aptSources()
	if err != nil {
		return err
	}
	list := path + ".list"
	part := path + ".part"
	if err := os.WriteFile(list, []byte(sources), 0o600); err != nil {
		return err
	}
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	// mmdebstrap mounts /proc and /sys into the root. In a mount namespace of its own these go with it also when it is killed, and the
	// next run removes no more than its files.
	args := []string{"--mount", "--propagation", "private", "mmdebstrap", `--aptopt=Acquire::Retries "5"`}
	for _, option := range aptProxies() {
		args = append(args, "--aptopt="+option)
	}
	args = append(args, "--variant=minbase", "--include="+r.packages, release, part, list)
	if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mmdebstrap: %w\n%s", err, out)
	}
	return os.Rename(part, path)
}

// aptSources are the Debian archives that this machine itself installs from, as one-line entries, and its release.
func aptSources() (sources, release string, err error) {
	archive := "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
	if _, err := os.Stat(keyring); err == nil {
		archive = strings.Replace(archive, "deb", "deb [signed-by="+keyring+"]", 1)
	}
	out, err := exec.Command("apt-get", "indextargets", "--format", archive, "Created-By: Packages", "Origin: Debian").Output()
	if err != nil {
		return "", "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	if len(out) == 0 {
		return "", "", errors.New("apt knows no archive of Debian here: run apt-get update")
	}
	lines := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if !lines[line] {
			sources += line
		}
		lines[line] = true
	}
	text, err := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			release = strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	return sources, release, err
}

// aptProxies are this machine's own proxy settings of apt.
func aptProxies() []string {
	out, err := exec.Command("apt-config", "dump", "--no-empty").Output()
	if err != nil {
		return nil
	}
	var options []string
	for line := range strings.Lines(string(out)) {
		if name, _, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "Acquire::") && strings.Contains(strings.ToLower(name), "proxy") {
			options = append(options, strings.TrimSpace(line))
		}
	}
	return options
}
