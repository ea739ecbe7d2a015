package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/gateway/internal/kit/lab"
)

// minted is what muster bootstrap -o json prints.
type minted struct {
	Node        string
	Token       string `json:"bootstrap_token"`
	URL         string `json:"bootstrap_url"`
	Script      string
	ScriptSum   string `json:"script_sha256"`
	FetchSum    string `json:"fetch_script_sha256"`
	Command     string
	UserData    string `json:"user_data"`
	NodeID      string `json:"node_id"`
	FetchWindow string `json:"fetch_window"`
}

func (h *house) bootstrap(name string, args ...string) minted {
	h.t.Helper()
	var m minted
	text := h.muster(append([]string{"bootstrap", name, "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Token == "" {
		h.t.Fatalf("bootstrap: %v in %s", err, text)
	}
	return m
}

// rootBox is a box whose commands run as root with an /etc, a /var/lib and a /run of their own, which is gone afterwards; what
// they left there is copied out.
type rootBox struct {
	*box
	after string
}

// newRootBox gives the box a PATH of chosen tools, so that no runtime and no apt of this machine is among them.
func newRootBox(t *testing.T, tools ...string) *rootBox {
	t.Helper()
	if len(tools) == 0 {
		tools = []string{"curl"}
	}
	b := &rootBox{box: newBox(t, tools...)}
	b.after = filepath.Join(b.records, "after")
	for _, name := range []string{"mkdir", "grep", "cp", "touch", "date", "find", "dash", "bash", "readlink", "tail", "cut", "flock",
		"getent", "timeout", "ls", "ln"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(b.bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

// sandbox hides the machine's folders behind new ones in a mount namespace, and gives `run`, which runs a command with the box's tools.
const sandbox = `set -e
before=$PWD
cd "$RECORD" # the name of a test may have a comma, which parts the options of mount
layer=$(mktemp -d layer.XXXXXX)
mount -t tmpfs tmpfs "$layer"
for folder in /etc /var/lib; do
	mkdir -p "$layer/up$folder" "$layer/work$folder"
	mount -t overlay overlay -o "lowerdir=$folder,upperdir=$layer/up$folder,workdir=$layer/work$folder" "$folder"
done
cd "$before"
mount -t tmpfs tmpfs /run
printf '127.0.0.1 localhost\n' >/etc/hosts
run() { PATH=$BOX_PATH "$@"; }
leave() {
	mkdir -p "$RECORD/after"
	cp -a /etc/muster /etc/hosts "$RECORD/after" 2>/dev/null || :
	find /etc/docker /etc/containers /var/lib/muster-agent /run 2>/dev/null >"$RECORD/after/files" || :
	for f in /etc/docker /etc/containers; do [ ! -d "$f/certs.d" ] || { mkdir -p "$RECORD/after$f" && cp -a "$f/certs.d" ` +
	`"$RECORD/after$f"; }; done
	ls -ld /etc/muster /etc/muster/* 2>/dev/null >"$RECORD/after/modes" || :
	cd / && rm -rf /etc/muster
}
trap leave EXIT
`

// root runs shell commands in the sandbox; $S is a file with the script.
func (b *rootBox) root(script, commands string) (code int, output string) {
	b.t.Helper()
	file := filepath.Join(b.home, "script")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.RemoveAll(b.after); err != nil {
		b.t.Fatal(err)
	}
	env := b.env
	defer func() { b.env = env }()
	tools, _, _ := strings.Cut(b.bin, ":")
	bin := b.bin
	defer func() { b.bin = bin }()
	b.bin = os.Getenv("PATH")
	b.env = append(b.env[:len(b.env):len(b.env)], "S="+file, "BOX_PATH="+tools)
	return b.do("", "unshare", append(namespaces(b.t), "sh", "-c", sandbox+commands)...)
}

// namespaces are unshare's flags for a mount namespace, or the test is skipped where the kernel allows none.
func namespaces(t *testing.T) []string {
	t.Helper()
	flags, err := namespaceFlags()
	if err != nil {
		lab.Lacking(t, fmt.Sprintf("not run: no mount namespace with overlays here: %v", err))
	}
	return flags
}

// namespaceFlags tries a sandbox, once for all tests: each costs a dozen processes.
var namespaceFlags = sync.OnceValues(func() ([]string, error) {
	flags := []string{"-m"}
	if os.Getuid() != 0 {
		flags = []string{"-Urm"}
	}
	records, err := os.MkdirTemp("", "muster-sandbox-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(records)
	probe := exec.Command("unshare", append(flags, "sh", "-c", sandbox)...)
	probe.Env = append(os.Environ(), "RECORD="+records)
	if out, err := probe.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return flags, nil
})

// left is a file that the sandbox had at its end.
func (b *rootBox) left(name string) string { return b.record(filepath.Join("after", name)) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
