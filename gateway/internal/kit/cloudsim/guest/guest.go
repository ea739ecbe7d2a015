// Package guest has what runs on the machines of a simulated company: on each a real agent, which sees GPUs that are none.
package guest

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"muster/gateway/internal/kit/cloudsim"
)

// NvidiaSMI stands in for nvidia-smi. The file control beside it sets count, model, memory (MiB of each GPU), seed (of their UUIDs), used
// (MiB of each GPU), by (the process on the first GPU), and app (the UUID of a GPU and a process that computes on it).
//
//go:embed nvidia-smi.sh
var NvidiaSMI string

// nobody is who the agents are where this process is root: giving a node back removes from the system what muster has put there.
const nobody = 65534

// Guests are the agents of the machines that run. Start and Stop are hooks of a cloudsim.Config.
type Guests struct {
	dir   string
	agent string
	gpus  map[string]int

	mu      sync.Mutex
	running map[string]*guest
	disks   map[string]int // which one a machine has
}

// guest is one agent.
type guest struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// New makes Guests that run this agent, in folders of their own below dir. gpus says how many GPUs a host has, if that is not the number
// that is paid for.
func New(dir, agent string, gpus map[string]int) (*Guests, error) {
	g := &Guests{dir: dir, agent: filepath.Join(dir, "muster-agent"), gpus: gpus, running: map[string]*guest{}, disks: map[string]int{}}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	return g, copyProgram(agent, g.agent)
}

// copyProgram copies a program to where everybody may run it.
func copyProgram(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

// What a start script says of how its machine joins.
var (
	inToken    = regexp.MustCompile(`\bmse_\w+|\bmsb_\w+\.\w+`)
	inURL      = regexp.MustCompile(`https?://[^/\s"']+`)
	inProvider = regexp.MustCompile(`--provider \w+`)
)

// inEnv is what has the script of a machine that only takes a command.
const inEnv = "MUSTER_START"

// Start runs the agent of a machine, as its start script would. It runs nothing if the script is not muster's, or if the agent runs
// already.
func (g *Guests) Start(m cloudsim.Machine) {
	script := cmp.Or(m.Env[inEnv], m.Script)
	token, url := inToken.FindString(script), inURL.FindString(script)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[m.ID] != nil || token == "" || url == "" {
		return
	}
	folder := g.Folder(m.ID)
	err := g.furnish(folder, m)
	if g.disks[m.ID] != m.Disk {
		err = errors.Join(os.RemoveAll(filepath.Join(folder, "state")), err)
		g.disks[m.ID] = m.Disk
	}
	if err != nil {
		panic(fmt.Sprintf("machine %s: %v", m.ID, err))
	}
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer log.Close()
	cmd := g.command(folder, url, log)
	cmd.Args = append(cmd.Args, strings.Fields(inProvider.FindString(script))...)
	for name, value := range m.Env {
		if name != inEnv {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if len(m.Env) == 0 { // nothing says there who it is, and the name of this system is that of all
		cmd.Args = append(cmd.Args, "--name", m.Name)
	}
	if _, err := os.Stat(filepath.Join(folder, "state", "identity.json")); err != nil {
		cmd.Env = append(cmd.Env, "MUSTER_TOKEN="+token)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	one := &guest{cmd, make(chan struct{})}
	g.running[m.ID] = one
	go func() {
		_ = cmd.Wait()
		close(one.done)
	}()
}

// furnish makes a machine's folder, with its GPUs.
func (g *Guests) furnish(folder string, m cloudsim.Machine) error {
	count, odd := g.gpus[m.Host]
	if !odd {
		count = m.GPUs
	}
	control := fmt.Sprintf("count=%d memory=%d seed=%.6x\n", count, m.MiB, sha256.Sum256([]byte(m.ID)))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(folder, nobody, nobody); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "control"), []byte(control), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "nvidia-smi"), []byte(NvidiaSMI), 0o755)
}

// command is the agent with nothing of this process in its environment.
func (g *Guests) command(folder, url string, log io.Writer) *exec.Cmd {
	cmd := exec.Command(g.agent, "run", "--gateway", url, "--state", filepath.Join(folder, "state"), "--interval", "2s",
		"--nvidia-smi", filepath.Join(folder, "nvidia-smi"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "GORACE=" + os.Getenv("GORACE")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// Folder returns where a machine's log, state and GPUs are.
func (g *Guests) Folder(id string) string { return filepath.Join(g.dir, id) }

// Stop ends the agent of a machine that does not run any more.
func (g *Guests) Stop(m cloudsim.Machine) { g.Kill(m.ID) }

// Forget ends the agent of a machine, and takes all away that was on its disk.
func (g *Guests) Forget(id string) {
	g.Kill(id)
	_ = os.RemoveAll(g.Folder(id))
}

// Kill ends the agent of a machine as a crash does. Its company does not see that. It reports whether an agent ran.
func (g *Guests) Kill(id string) bool {
	g.mu.Lock()
	one := g.running[id]
	delete(g.running, id)
	g.mu.Unlock()
	if one == nil {
		return false
	}
	select {
	case <-one.done: // its number may be somebody else's
		return false
	default:
	}
	_ = syscall.Kill(-one.cmd.Process.Pid, syscall.SIGKILL)
	<-one.done
	return true
}

// Close ends all agents.
func (g *Guests) Close() {
	g.mu.Lock()
	var ids []string
	for id := range g.running {
		ids = append(ids, id)
	}
	g.mu.Unlock()
	for _, id := range ids {
		g.Kill(id)
	}
}
