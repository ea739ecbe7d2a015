//go:build real

package lab

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build makes a gateway with an agent of another version inside, as `make build` would from a later commit, and gives its path.
// The tree stays as it is: an overlay replaces the embedded agent.
func (l *Lab) Build(version string) string { return l.BuildWith(version, nil) }

// BuildWith makes one with files that the tree does not have: their texts by their paths in it.
func (l *Lab) BuildWith(version string, files map[string]string) string {
	l.T.Helper()
	agent := filepath.Join(l.Dir, "muster-agent-"+version)
	gateway := filepath.Join(l.Dir, "muster-"+version)
	stamp := "-s -w -X main.version=" + version
	l.goBuild("-tags", "nethttpomithttp2", "-ldflags", stamp, "-o", agent, "./agent")
	embedded := filepath.Join(Tree(), "gateway", "agents", "linux-"+runtime.GOARCH, "muster-agent")
	replace := map[string]string{embedded: agent}
	for path, text := range files {
		file := filepath.Join(l.Dir, version+"-"+filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			l.T.Fatal(err)
		}
		replace[filepath.Join(Tree(), path)] = file
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		l.T.Fatal(err)
	}
	file := filepath.Join(l.Dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		l.T.Fatal(err)
	}
	l.goBuild("-overlay", file, "-ldflags", stamp, "-o", gateway, "./gateway")
	return gateway
}

func (l *Lab) goBuild(args ...string) {
	l.T.Helper()
	c := exec.Command("go", append([]string{"build", "-trimpath"}, args...)...)
	c.Dir = Tree()
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		l.T.Fatalf("go build: %v\n%s", err, out)
	}
}
