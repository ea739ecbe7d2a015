//go:build real

package lab

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
)

// Failing is a way in which a release of the agent is no good.
type Failing string

// The ways. Every one of them answers the command version, so that it is taken for an agent of this platform.
const (
	Crashing  Failing = "crashing"  // ends at its start
	Hanging   Failing = "hanging"   // does nothing, and does not listen to signals
	HungReady Failing = "hungready" // says to systemd that it is ready, and then does nothing
	Deaf      Failing = "deaf"      // a whole agent that looks for its gateway if none is
	Lapsing   Failing = "lapsing"   // a whole agent that panics at its start once there is a file Lapse
)

// failing is the source of an agent that is no good, but for those that are whole.
const failing = `package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
)

var kind, version string

func main() {
	if len(os.Args) < 2 || os.Args[1] != "run" {
		fmt.Println("muster-agent", version)
		return
	}
	fmt.Fprintln(os.Stderr, "this release is", kind)
	signal.Ignore(syscall.SIGTERM)
	switch kind {
	case "crashing":
		os.Exit(3)
	case "hungready":
		if socket, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET")); err == nil {
			socket.Write([]byte("READY=1"))
		}
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1)
	<-make(chan int)
}
`

// deaf goes into the package of the agent, where its main function begins.
const deaf = `package main

import "os"

func init() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		os.Setenv("MUSTER_GATEWAY", "https://127.0.0.1:1")
	}
}
`

// Lapse is a file on a machine.
const Lapse = "/lapse"

// lapsing goes there too.
const lapsing = `package main

import "os"

func init() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		if _, err := os.Stat("` + Lapse + `"); err == nil {
			panic("a wrong turn")
		}
	}
}
`

// Agent builds an agent of this version and gives its path.
func (l *Lab) Agent(version string) string {
	l.T.Helper()
	return l.agent(version)
}

func (l *Lab) agent(version string, more ...string) string {
	l.T.Helper()
	path := filepath.Join(l.Dir, "muster-agent-"+version)
	args := append([]string{"-tags", "nethttpomithttp2", "-ldflags", "-s -w -X main.version=" + version, "-o", path}, more...)
	l.goBuild(append(args, "./agent")...)
	return path
}

// Failing builds an agent of this version that is no good, and gives its path.
func (l *Lab) Failing(how Failing, version string) string {
	l.T.Helper()
	source := filepath.Join(l.Dir, string(how)+".go")
	whole := map[Failing]string{Deaf: deaf, Lapsing: lapsing}[how]
	text := cmp.Or(whole, failing)
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		l.T.Fatal(err)
	}
	if whole == "" {
		path := filepath.Join(l.Dir, "muster-agent-"+version)
		l.goBuild("-ldflags", "-s -w -X main.version="+version+" -X main.kind="+string(how), "-o", path, source)
		return path
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(Tree(), "agent", string(how)+".go"): source}})
	if err != nil {
		l.T.Fatal(err)
	}
	file := filepath.Join(l.Dir, "overlay-"+string(how)+".json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		l.T.Fatal(err)
	}
	return l.agent(version, "-overlay", file)
}
