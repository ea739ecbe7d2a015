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
func (l *Lab) Build(version string) string {
	l.T.Helper()
	agent := filepath.Join(l.Dir, "muster-agent-"+version)
	gateway := filepath.Join(l.Dir, "muster-"+version)
	stamp := "-s -w -X main.version=" + version
	l.goBuild("-tags", "nethttpomithttp2", "-ldflags", stamp, "-o", agent, "./agent")
	embedded := filepath.Join(Tree(), "gateway", "agents", "linux-"+runtime.GOARCH, "muster-agent")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {embedded: agent}})
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
