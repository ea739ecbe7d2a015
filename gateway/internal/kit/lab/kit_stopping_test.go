//go:build real

package lab

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files on a box by which a test stops an agent that Stopping has built.
const (
	stopOrder = "/etc/muster-lab-stop"    // what it waits for: version, command, how often before, and the step
	stopTrace = "/etc/muster-lab-stopped" // it has come there
)

// stopping goes into the agent's package disk. An agent tells that package of every change on the disk before it makes it. There this one
// leaves a trace and does nothing more, until its machine loses power or the order is taken back.
const stopping = `package disk

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

var version string

type stops struct {
	sync.Mutex
	seen map[string]int
}

var all = stops{seen: map[string]int{}}

func stop(step string) {
	order, err := os.ReadFile("` + stopOrder + `")
	if err != nil || len(os.Args) < 2 {
		return
	}
	all.Lock()
	all.seen[step]++
	count := all.seen[step]
	all.Unlock()
	if strings.TrimSpace(string(order)) != fmt.Sprint(version, " ", os.Args[1], " ", count, " ", step) {
		return
	}
	os.WriteFile("` + stopTrace + `", order, 0o600)
	for err == nil {
		time.Sleep(50 * time.Millisecond)
		_, err = os.Stat("` + stopOrder + `")
	}
}
`

// Stopping builds an agent of this version that stops at a step where StopAt says so, and gives its path.
func (l *Lab) Stopping(version string) string {
	l.T.Helper()
	const head = "func (s Steps) tell(step Step) error {\n"
	folder := filepath.Join(Tree(), "agent", "disk")
	text, err := os.ReadFile(filepath.Join(folder, "disk.go"))
	if err != nil || !strings.Contains(string(text), head) {
		l.T.Fatalf("package disk has no %q: %v", head, err)
	}
	replaced := map[string]string{}
	for name, content := range map[string]string{
		"disk.go": strings.Replace(string(text), head, head+"\tstop(step.Name)\n", 1), "stop.go": stopping,
	} {
		source := filepath.Join(l.Dir, "stopping-"+name)
		if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
			l.T.Fatal(err)
		}
		replaced[filepath.Join(folder, name)] = source
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replaced})
	file := filepath.Join(l.Dir, "overlay-stopping.json")
	if err == nil {
		err = os.WriteFile(file, overlay, 0o600)
	}
	if err != nil {
		l.T.Fatal(err)
	}
	path := filepath.Join(l.Dir, "muster-agent-"+version)
	l.goBuild("-tags", "nethttpomithttp2", "-overlay", file, "-o", path, "-ldflags",
		"-s -w -X main.version="+version+" -X muster/agent/disk.version="+version, "./agent")
	return path
}

// StopAt has an agent of that version stop where its command, such as run, comes to a step for the nth time.
func (b *Box) StopAt(order string) {
	b.lab.T.Helper()
	b.Write(stopOrder, order+"\n", 0o600)
}

// Stopped reports whether an agent has stopped.
func (b *Box) Stopped() bool {
	_, err := os.Stat(b.Path(stopTrace))
	return err == nil
}

// GoOn lets a stopped agent go on, and all others from the next boot.
func (b *Box) GoOn() {
	b.lab.T.Helper()
	for _, path := range []string{stopOrder, stopTrace} {
		if err := os.Remove(b.Path(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.lab.T.Fatal(err)
		}
	}
}
