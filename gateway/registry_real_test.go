//go:build real

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/gateway/internal/kit/lab"
)

// conformance is the variable that names the conformance suite of the OCI distribution specification: go build in its folder conformance.
// It is no module, so it is built outside of this repository.
const conformance = "OCI_CONFORMANCE"

// leastConformance is how many of its tests there were when it was last looked at. A suite that is told less runs less and is content.
const leastConformance = 1032

// craneVersion is the crane that the tests drive.
const (
	crane        = "github.com/google/go-containerregistry/cmd/crane"
	craneVersion = "v0.22.1"
)

// rootFile is a file with the gateway's root.
func (p *pusher) rootFile() string {
	p.t.Helper()
	_, roots := p.must(200, http.MethodGet, "/ca.pem", nil)
	file := filepath.Join(p.t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, roots, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// host is the registry's name for clients.
func (p *pusher) host() string { return strings.TrimPrefix(p.url, "https://") }

// TestRegistryConformance runs the whole suite as of the specification's next version, with sparse manifests: none fails, none is skipped.
func TestRegistryConformance(t *testing.T) {
	suite := os.Getenv(conformance)
	if suite == "" {
		t.Skipf("NOT RUN: %s does not name the conformance suite of opencontainers/distribution-spec", conformance)
	}
	p := newHouse(t).pusher()
	dir := t.TempDir()
	c := exec.Command(suite)
	c.Dir = dir
	c.Env = append(cleanEnv(), "SSL_CERT_FILE="+p.rootFile(), "OCI_REGISTRY="+p.host(), "OCI_TLS=enabled", "OCI_VERSION=dev",
		"OCI_DATA_SPARSE=true", "OCI_CACHE_AUTH=true", "OCI_USERNAME=pusher", "OCI_PASSWORD="+p.token, "OCI_REPO1=muster/one",
		"OCI_REPO2=muster/two", "OCI_RESULTS_DIR="+dir)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	counts := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^\s*(\w+)\.+: +(\d+)$`).FindAllStringSubmatch(string(out), -1) {
		var n int
		fmt.Sscan(found[2], &n)
		counts[found[1]] = n
	}
	t.Logf("the conformance suite: %v", counts)
	if counts["Pass"] < leastConformance || counts["Pass"] != counts["Total"] {
		t.Errorf("not every test passed: %v", counts)
	}
	results, err := os.ReadFile(filepath.Join(dir, "results.yaml"))
	if err != nil || bytes.Count(results, []byte(": Pass\n")) < 40 {
		t.Errorf("results.yaml: %v\n%s", err, results)
	}
	if not := regexp.MustCompile(`(?m)^.*: (FAIL|Skip|Disabled|Error|Unknown)$`).FindAll(results, -1); not != nil {
		t.Errorf("results.yaml has %q", not)
	}
}

// workshop runs a real client of registries, in a home of its own that trusts the gateway's root.
type workshop struct {
	t   *testing.T
	dir string
	env []string
}

func (p *pusher) workshop() *workshop {
	p.t.Helper()
	c := &workshop{t: p.t, dir: p.t.TempDir()}
	certs := filepath.Join(c.dir, "certs")
	if err := os.Mkdir(certs, 0o700); err != nil {
		p.t.Fatal(err)
	}
	root := p.rootFile()
	text, err := os.ReadFile(root)
	if err == nil {
		err = os.WriteFile(filepath.Join(certs, "ca.crt"), text, 0o600)
	}
	storage := "[storage]\ndriver = \"vfs\"\ngraphroot = \"" + c.dir + "/storage\"\nrunroot = \"" + c.dir + "/run\"\n"
	if err == nil {
		err = os.WriteFile(filepath.Join(c.dir, "storage.conf"), []byte(storage), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	// podman manifest inspect does not look at REGISTRY_AUTH_FILE, so that names what podman looks at by itself.
	c.env = append(cleanEnv(), "HOME="+c.dir, "SSL_CERT_FILE="+root, "DOCKER_CONFIG="+c.dir,
		"REGISTRY_AUTH_FILE="+c.dir+"/containers/auth.json", "CONTAINERS_STORAGE_CONF="+c.dir+"/storage.conf", "XDG_RUNTIME_DIR="+c.dir)
	return c
}

// run gives a command's standard output. stdin goes to it.
func (c *workshop) run(stdin, program string, args ...string) string {
	c.t.Helper()
	out, err := c.try(stdin, program, args...)
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (c *workshop) try(stdin, program string, args ...string) (string, error) {
	c.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout = &out
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}

// layer makes a tar archive with one file of random bytes.
func (c *workshop) layer(name string) string {
	c.t.Helper()
	content, _ := randomBytes(3 << 20)
	if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run("", "tar", "-cf", name+".tar", name)
	return filepath.Join(c.dir, name+".tar")
}

// TestRegistryCrane does whatever crane can do with a registry.
func TestRegistryCrane(t *testing.T) {
	program, err := lab.Program(crane, craneVersion)
	if err != nil {
		t.Skipf("NOT RUN: crane cannot be built: %v", err)
	}
	p := newHouse(t).pusher()
	c := p.workshop()
	one := p.host() + "/team/one"
	two := p.host() + "/team/two"
	do := func(args ...string) string { t.Helper(); return c.run("", program, args...) }
	if out, err := c.try("", program, "ls", one); err == nil || !strings.Contains(out, "UNAUTHORIZED") {
		t.Errorf("without a login: %v %s", err, out)
	}
	c.run(p.token, program, "auth", "login", p.host(), "-u", "pusher", "--password-stdin")
	pushed := do("append", "-f", c.layer("a"), "-t", one+":v1", "--oci-empty-base")
	digest := pushed[strings.Index(pushed, "@")+1:]
	for want, got := range map[string]string{
		digest: do("digest", one+":v1"), "v1": do("ls", one), "team/one": do("catalog", p.host()), "": do("validate", "--remote", one+":v1"),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	do("tag", one+":v1", "v2")
	do("copy", one+":v1", two+":v1") // mounts the blobs
	do("pull", one+":v2", filepath.Join(c.dir, "image.tar"))
	do("push", filepath.Join(c.dir, "image.tar"), two+":again")
	do("pull", "--format", "oci", one+":v1", filepath.Join(c.dir, "layout"))
	do("push", filepath.Join(c.dir, "layout"), two+":layout")
	do("index", "append", "-m", one+":v1", "-m", two+":again", "-t", two+":index")
	do("mutate", one+":v1", "--annotation", "a=b", "-t", one+":mutated")
	do("flatten", one+":v1", "-t", one+":flat")
	do("rebase", one+":v1", "--old_base", one+":v1", "--new_base", one+":flat", "-t", one+":rebased")
	if got := do("manifest", one+":v1"); !strings.Contains(got, `"layers"`) {
		t.Errorf("the manifest: %s", got)
	}
	if got := do("config", one+":v1"); !strings.Contains(got, `"rootfs"`) {
		t.Errorf("the configuration: %s", got)
	}
	layer := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindAllString(do("manifest", one+":v1"), -1)
	if got := do("blob", one+"@"+layer[len(layer)-1]); len(got) < 1<<20 {
		t.Errorf("a blob of %d bytes", len(got))
	}
	if got := do("export", one+":v1", "-"); !strings.Contains(got, "a\x00") {
		t.Errorf("an export of %d bytes", len(got))
	}
	do("delete", one+":v2")
	do("delete", two+"@"+do("digest", two+":index"))
	if out, err := c.try("", program, "digest", two+":index"); err == nil {
		t.Errorf("a deleted index is there: %s", out)
	}
	do("auth", "logout", p.host())
}

// TestRegistrySkopeo does whatever skopeo can do with a registry.
func TestRegistrySkopeo(t *testing.T) {
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("NOT RUN: there is no skopeo: apt-get install skopeo")
	}
	p := newHouse(t).pusher()
	c := p.workshop()
	do := func(args ...string) string { t.Helper(); return c.run("", "skopeo", args...) }
	at := func(name string) string { return "docker://" + p.host() + "/" + name }
	certs := filepath.Join(c.dir, "certs")
	from := c.layout()
	c.run(p.token, "skopeo", "login", "--cert-dir", certs, "-u", "pusher", "--password-stdin", p.host())
	do("--insecure-policy", "copy", "--dest-cert-dir", certs, "oci:"+from, at("team/one:v1"))
	do("--insecure-policy", "copy", "--src-cert-dir", certs, "--dest-cert-dir", certs, at("team/one:v1"), at("team/two:v1"))
	do("--insecure-policy", "copy", "--all", "--src-cert-dir", certs, at("team/two:v1"), "dir:"+filepath.Join(c.dir, "out"))
	for want, got := range map[string]string{
		`"Tags": [`:      do("list-tags", "--cert-dir", certs, at("team/one")),
		`"sha256:`:       do("inspect", "--cert-dir", certs, at("team/one:v1")),
		`"layers"`:       do("inspect", "--raw", "--cert-dir", certs, at("team/one:v1")),
		`"architecture"`: do("inspect", "--config", "--cert-dir", certs, at("team/one:v1")),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	do("--insecure-policy", "sync", "--src", "docker", "--dest", "dir", "--src-cert-dir", certs, p.host()+"/team/one",
		filepath.Join(c.dir, "synced"))
	do("delete", "--cert-dir", certs, at("team/two:v1"))
	if out, err := c.try("", "skopeo", "inspect", "--cert-dir", certs, at("team/two:v1")); err == nil {
		t.Errorf("a deleted image is there: %s", out)
	}
	do("logout", p.host())
	if out, err := c.try("", "skopeo", "inspect", "--cert-dir", certs, at("team/one:v1")); err == nil {
		t.Errorf("without a login: %s", out)
	}
	pull := p.mintReader()
	do("--insecure-policy", "copy", "--src-cert-dir", certs, "--src-creds", "reader:"+pull, at("team/one:v1"),
		"dir:"+filepath.Join(c.dir, "read"))
	if out, err := c.try("", "skopeo", "delete", "--cert-dir", certs, "--creds", "reader:"+pull, at("team/one:v1")); err == nil {
		t.Errorf("a reader deletes: %s", out)
	}
}

// mintReader makes an account that may pull.
func (p *pusher) mintReader() string {
	p.t.Helper()
	text := p.muster("account", "create", "reader", "--scope", "releases:read", "-o", "json")
	found := regexp.MustCompile(`msa_\w+_\w+`).FindString(text)
	if found == "" {
		p.t.Fatalf("account create: %s", text)
	}
	return found
}

// layout makes an OCI layout with one image.
func (c *workshop) layout() string {
	c.t.Helper()
	c.layer("a")
	c.run("", "podman", "import", "-q", "a.tar", "localhost/a:v1")
	out := filepath.Join(c.dir, "from")
	c.run("", "skopeo", "--insecure-policy", "copy", "containers-storage:localhost/a:v1", "oci:"+out+":v1")
	return out + ":v1"
}

// TestRegistryPodman logs in, pushes, pulls, searches and handles a list of manifests.
func TestRegistryPodman(t *testing.T) {
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("NOT RUN: there is no podman: apt-get install podman")
	}
	p := newHouse(t).pusher()
	c := p.workshop()
	certs := "--cert-dir=" + filepath.Join(c.dir, "certs")
	do := func(args ...string) string { t.Helper(); return c.run("", "podman", args...) }
	policy := filepath.Join(c.dir, "policy.json")
	if err := os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	name := p.host() + "/team/podman"
	c.layer("a")
	do("import", "-q", "a.tar", name+":v1")
	if out, err := c.try("", "podman", "push", "-q", certs, name+":v1"); err == nil {
		t.Errorf("without a login: %s", out)
	}
	if out, err := c.try("wrong", "podman", "login", certs, "-u", "pusher", "--password-stdin", p.host()); err == nil {
		t.Errorf("with a wrong password: %s", out)
	}
	c.run(p.token, "podman", "login", certs, "-u", "pusher", "--password-stdin", p.host())
	do("push", "-q", certs, name+":v1")
	do("push", "-q", certs, "--format", "v2s2", name+":v1", name+":docker")
	do("rmi", name+":v1")
	do("pull", "-q", certs, "--signature-policy", policy, name+":v1")
	do("pull", "-q", certs, "--signature-policy", policy, name+":docker")
	do("manifest", "create", "list")
	do("manifest", "add", certs, "list", "docker://"+name+":v1")
	do("manifest", "push", "-q", certs, "--all", "list", "docker://"+name+":list")
	if got := do("search", "--list-tags", name); !strings.Contains(got, "list") || !strings.Contains(got, "docker") {
		t.Errorf("the tags: %s", got)
	}
	if got := do("manifest", "inspect", name+":list"); !strings.Contains(got, "manifests") {
		t.Errorf("the list: %s", got)
	}
	do("logout", p.host())
}
