package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const (
	module = "muster/"
	root   = "muster" // the package at the top, which carries the installer
)

// The four storeys of gateway/internal, the highest first. Each imports lower ones alone.
var (
	// listenerNames answer requests, and offline the commands that want a stopped gateway. They do not import one another. A listener may
	// have packages below it, which no other package of gateway/internal imports.
	listenerNames = []string{"nodeapi", "adminapi", "web", "oci", "metrics", "offline"}

	// partNames are what the gateway is made of. They do not import one another. A part's backend may import its part.
	partNames = []string{
		"fleet", "authority", "bootstrap", "task", "release", "history", "health", "alert", "logs", "session", "placement", "maas", "provider",
		"cost", "retention", "ship",
	}

	// sharedNames are what listeners and parts have in common: who calls, what is recorded, how is answered.
	sharedNames = []string{
		"account", "artifact", "audit", "build", "feed", "login", "overview", "remote", "rollout", "limit", "reply", "origin", "reading",
		"replay", "selector", "timeline", "clash", "door", "secret", "masterkey", "outage", "reach", "installer", "tail",
		"livestream", "transcript", "picture", "recording", "label", "packed",
	}

	// leafNames are packages of one idea that need nothing of muster's.
	leafNames = []string{"gcpace", "paste", "plot", "reload", "runlist", "systemd", "window", "markdown"}

	// installerNames deal with install.sh, which the package at the top carries, and with what vouches for a download.
	installerNames = []string{"gateway", "gateway/internal/installer", "gateway/internal/reach", "gateway/internal/bootstrap"}

	// machineNames know this machine: its data directory, its files and programs, its shell and its terminals. The command line works with
	// them too.
	machineNames = []string{"archive", "asciicast", "columns", "datadir", "executable", "scrollback", "shellword"}
)

// recordNames are packages of records beside package store, which would be too large with them. They use its engine and its events.
var recordNames = []string{"store/alerts", "store/costs", "store/health", "store/history", "store/logins", "store/registry",
	"store/releases", "store/sessions", "store/shipping"}

// protocolNames are what agent and gateway have in common: what they say to each other, and both ends of it.
var protocolNames = []string{"agent/wire", "agent/sign", "agent/pipe", "agent/spool", "agent/disk"}

// clientName is the admin API as its callers see it: its shapes, which its server uses too.
const clientName = "client"

// dialName is the part of the client that makes connections. The command line reads its errors.
const dialName = "client/dial"

// attachName is the operator's end of a session with a node: commands use it, and it uses the client.
const attachName = "attach"

// glanceName is what both sides of the admin API say of one node in a list.
const glanceName = "glance"

type goPackage struct {
	ImportPath string
	Imports    []string
}

// TestImports keeps the walls of the house: who may import whom.
func TestImports(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 8 {
		t.Fatalf("go list gave %d packages: the test would keep nothing", len(packages))
	}
	for _, p := range packages {
		for _, imported := range p.Imports {
			if !standard(imported) && !allowed(p.ImportPath, imported) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
}

// TestImportRules proves that the rules can fail.
func TestImportRules(t *testing.T) {
	for _, edge := range []struct {
		from, to string
		ok       bool
	}{
		{"agent", "agent/internal/gpu", true},
		{"agent/internal/gpu", "agent/wire", true},
		{"agent/internal/gpu", "store", false},
		{"agent", "modernc.org/sqlite", false},
		{"agent/wire", "agent/internal/gpu", false},
		{"agent/wire", "agent/sign", false},
		{"agent/sign", "agent/wire", true},
		{"agent/pipe", "agent/wire", true},
		{"agent/pipe", "agent/sign", false},
		{"agent/spool", "agent/wire", true},
		{"agent/spool", "agent/disk", true},
		{"agent/spool", "agent/internal/gpu", false},
		{"agent/disk", "agent/wire", false},
		{"gateway/internal/datadir", "agent/disk", true},
		{"agent/internal/session", "agent/pipe", true},
		{"gateway/internal/session", "agent/pipe", true},
		{"gateway/internal/ship", "agent/spool", true},
		{"gateway/internal/cli/shell", "agent/pipe", true},
		{"gateway/internal/ship", "agent/internal/ship", false},
		{"store", "store/sqlite", true},
		{"store", "modernc.org/sqlite", false},
		{"store/sqlite", "modernc.org/sqlite", true},
		{"store/sqlite", "store", false},
		{"gateway/internal/fleet", "store/sqlite", false},
		{"store", "agent/wire", false},
		{"store/history", "store/sqlite", true},
		{"store/history", "modernc.org/sqlite", false},
		{"gateway/internal/history", "store/history", true},
		{"store/releases", "store", true},
		{"store/releases", "store/sqlite", true},
		{"store/releases", "store/registry", false},
		{"store/releases", "modernc.org/sqlite", false},
		{"store", "store/releases", false},
		{"gateway/internal/release", "store/releases", true},
		{"gateway/internal/release", "gateway/internal/artifact", true},
		{"gateway/internal/oci", "gateway/internal/artifact", true},
		{"gateway/internal/artifact", "gateway/internal/oci", false},
		{"gateway/internal/cli", "store/registry", false},
		{"gateway/internal/logs", "gateway/internal/door", true},
		{"gateway/internal/logs", "gateway/internal/session", false},
		{"gateway/internal/logs", "gateway/internal/client", false},
		{"gateway/internal/fleet", "store", true},
		{"gateway/internal/fleet", "gateway/internal/authority", false},
		{"gateway/internal/authority/stepca", "gateway/internal/authority", true},
		{"gateway/internal/fleet", "gateway/internal/audit", true},
		{"gateway/internal/audit", "gateway/internal/fleet", false},
		{"gateway/internal/fleet", "gateway/internal/client", false},
		{"gateway/internal/fleet", "modernc.org/sqlite", false},
		{"gateway/internal/bootstrap", "gateway/internal/paste", true},
		{"gateway/internal/cli", "gateway/internal/paste", false},
		{"gateway/internal/paste", "store", false},
		{"gateway/internal/cli", "gateway/internal/datadir", true},
		{"gateway/internal/cli/release", "gateway/internal/executable", true},
		{"gateway/internal/build", "gateway/internal/executable", true},
		{"gateway/internal/executable", "gateway/internal/build", false},
		{"gateway/internal/datadir", "gateway/internal/shellword", true},
		{"gateway/internal/datadir", "store", false},
		{"gateway/internal/datadir", "gateway/internal/cli", false},
		{"gateway/internal/nodeapi", "gateway/internal/fleet", true},
		{"gateway/internal/nodeapi", "gateway/internal/adminapi", false},
		{"gateway/internal/nodeapi", "gateway/internal/reply", true},
		{"gateway/internal/nodeapi", "gateway/internal/reading", true},
		{"gateway/internal/reading", "gateway/internal/fleet", false},
		{"gateway/internal/cli", "gateway/internal/adminapi", false},
		{"gateway/internal/cli", "gateway/internal/client", true},
		{"gateway/internal/cli/shell", "gateway/internal/attach", true},
		{"gateway/internal/attach", "gateway/internal/client", true},
		{"gateway/internal/attach", "agent/pipe", true},
		{"gateway/internal/attach", "gateway/internal/cli", false},
		{"gateway/internal/client", "gateway/internal/attach", false},
		{"gateway/internal/web", "gateway/internal/attach", false},
		{"gateway/internal/cli", "gateway/internal/cli/screen", true},
		{"gateway/internal/cli", "gateway/internal/cli/node", false},
		{"gateway/internal/cli", "gateway/internal/cli/commands", false},
		{"gateway/internal/cli/node", "gateway/internal/cli", true},
		{"gateway/internal/cli/node", "gateway/internal/cli/screen", true},
		{"gateway/internal/cli/node", "gateway/internal/cli/token", false},
		{"gateway/internal/cli/commands", "gateway/internal/cli/node", true},
		{"gateway/internal/cli/screen", "gateway/internal/cli", false},
		{"gateway/internal/cli/tty", "gateway/internal/cli", false},
		{"gateway/internal/cli/top", "gateway/internal/cli/live", true},
		{"gateway/internal/cli/live", "gateway/internal/cli/tty", true},
		{"gateway/internal/cli/live", "gateway/internal/cli/top", false},
		{"gateway/internal/cli", "gateway/internal/cli/live", false},
		{"gateway/internal/adminapi", "gateway/internal/client", true},
		{"gateway/internal/client", "gateway/internal/adminapi", false},
		{"gateway/internal/adminapi", "gateway/internal/adminapi/shape", true},
		{"gateway/internal/adminapi/shape", "gateway/internal/fleet", true},
		{"gateway/internal/adminapi/shape", "gateway/internal/adminapi", false},
		{"gateway/internal/adminapi/shape", "gateway/internal/web", false},
		{"gateway/internal/web", "gateway/internal/adminapi/shape", false},
		{"gateway/internal/livestream", "gateway/internal/adminapi/shape", false},
		{"gateway/internal/adminapi", "gateway/internal/adminapi/backup", true},
		{"gateway/internal/adminapi/backup", "gateway/internal/archive", true},
		{"gateway/internal/adminapi/backup", "gateway/internal/adminapi", false},
		{"gateway/internal/adminapi", "gateway/internal/adminapi/page", true},
		{"gateway/internal/adminapi/page", "gateway/internal/adminapi/shape", false},
		{"gateway/internal/nodeapi", "gateway/internal/adminapi/page", false},
		{"gateway/internal/web", "gateway/internal/picture", true},
		{"gateway/internal/picture", "gateway/internal/client", true},
		{"gateway/internal/picture", "gateway/internal/health", false},
		{"gateway/internal/metrics", "gateway/internal/overview", true},
		{"gateway/internal/metrics", "gateway/internal/adminapi", false},
		{"gateway/internal/adminapi", "gateway/internal/livestream", true},
		{"gateway/internal/livestream", "gateway/internal/overview", true},
		{"gateway/internal/livestream", "gateway/internal/task", false},
		{"gateway/internal/transcript", "gateway/internal/client", true},
		{"gateway/internal/recording", "gateway/internal/asciicast", true},
		{"gateway/internal/recording", "gateway/internal/session", false},
		{"gateway/internal/cli/session", "gateway/internal/asciicast", true},
		{"gateway/internal/web", "gateway/internal/client", true},
		{"gateway/internal/web", "gateway/internal/adminapi", false},
		{"gateway/internal/web", "gateway/internal/cli/help", true},
		{"gateway/internal/web", "gateway/internal/cli/screen", false},
		{"gateway/internal/web", "gateway/internal/scrollback", true},
		{"gateway/internal/scrollback", "gateway/internal/columns", true},
		{"gateway/internal/scrollback", "gateway/internal/picture", false},
		{"gateway/internal/cli/screen", "gateway/internal/columns", true},
		{"gateway/internal/web", "gateway/internal/web/form", true},
		{"gateway/internal/adminapi", "gateway/internal/web/form", false},
		{"gateway/internal/adminapi", "gateway/internal/cli/help", false},
		{"gateway/internal/client", "store", false},
		{"gateway/internal/client", "gateway/internal/glance", true},
		{"gateway/internal/glance", "gateway/internal/client", false},
		{"gateway/internal/client", "gateway/internal/client/dial", true},
		{"gateway/internal/client/dial", "gateway/internal/client", false},
		{"gateway/internal/client/dial", "gateway/internal/glance", false},
		{"gateway/internal/client/dial", "agent/sign", true},
		{"gateway/internal/cli", "gateway/internal/client/dial", true},
		{"gateway/internal/web", "gateway/internal/client/dial", false},
		{"gateway/internal/overview", "gateway/internal/glance", true},
		{"gateway/internal/alert", "gateway/internal/glance", true},
		{"gateway/internal/alert", "gateway/internal/client", false},
		{"gateway/internal/cli", "gateway/internal/fleet", false},
		{"gateway/internal/cli", "store", false},
		{"gateway/internal/swarm", "agent/sign", true},
		{"gateway/internal/swarm", "store", false},
		{"agent", "muster", false},
		{"gateway/internal/nodeapi", "muster", false},
		{"store", "muster", false},
		{"gateway", "muster", true},
		{"gateway/internal/installer", "muster", true},
		{"gateway", "gateway/internal/cli", true},
		{"gateway", "agent/internal/gpu", false},
		{"gateway", "modernc.org/sqlite", false},
	} {
		to := edge.to
		if !strings.Contains(to, ".") && to != root {
			to = module + to
		}
		if got := allowed(module+edge.from, to); got != edge.ok {
			t.Errorf("%s imports %s: allowed = %v, want %v", edge.from, edge.to, got, edge.ok)
		}
	}
}

// allowed is the table of edges beyond the standard library.
func allowed(from, to string) bool {
	from = strings.TrimPrefix(from, module)
	to, inside := strings.CutPrefix(to, module)
	protocol := one(protocolNames, to)
	if to == root {
		return one(installerNames, from)
	}
	switch {
	case from == "agent/wire":
		return false
	case from == "agent/disk":
		return false
	case one(protocolNames, from):
		return to == "agent/wire" || to == "agent/disk"
	case from == "agent" || strings.HasPrefix(from, "agent/"):
		return inside && (to == "agent" || strings.HasPrefix(to, "agent/"))
	case from == "store":
		return to == "store/sqlite"
	case one(recordNames, from):
		return to == "store" || to == "store/sqlite"
	case from == "store/sqlite":
		return to == "modernc.org/sqlite" || strings.HasPrefix(to, "modernc.org/sqlite/")
	case from == "gateway":
		return inside && (protocol || to == "store" || one(recordNames, to) || strings.HasPrefix(to, "gateway/internal/"))
	case strings.HasPrefix(from, "gateway/internal/"):
		return inside && internalEdge(strings.TrimPrefix(from, "gateway/internal/"), to, protocol)
	}
	return false
}

func internalEdge(from, to string, protocol bool) bool {
	name, _, backend := strings.Cut(from, "/")
	target := strings.TrimPrefix(to, "gateway/internal/")
	below := protocol || to == "store" || one(recordNames, to) || one(leafNames, target) || one(machineNames, target) || target == glanceName
	switch {
	case one(leafNames, name):
		return false
	case one(machineNames, name):
		return protocol || one(machineNames, target)
	case one(sharedNames, name):
		return below || one(sharedNames, target) || target == clientName
	case one(partNames, name):
		return below || one(sharedNames, target) || backend && target == name
	case one(listenerNames, name):
		shown := name == "web" && target == "cli/help" // the console shows the pages of muster help
		own := !backend && strings.HasPrefix(target, name+"/")
		return below || one(sharedNames, target) || one(partNames, target) || target == clientName || shown || own
	case name == "cli":
		return protocol || one([]string{clientName, dialName, glanceName, attachName}, target) || one(machineNames, target) ||
			commandLineEdge(from, target)
	case name == attachName:
		return protocol || target == clientName
	case from == clientName:
		return protocol || target == glanceName || target == dialName
	default: // glance, dial, and programs for tests such as swarm
		return protocol
	}
}

// commandLineEdge keeps the command line in layers: what prints, terminals and the pages of help, the core, live pictures, the groups of
// commands, their list.
func commandLineEdge(from, target string) bool {
	lowest := []string{"cli/screen", "cli/help", "cli/tty"}
	switch {
	case one(lowest, from):
		return false
	case from == "cli/commands":
		return target == "cli" || strings.HasPrefix(target, "cli/")
	case from == "cli":
		return one(lowest, target)
	}
	return target == "cli" || one(lowest, target) || target == "cli/live"
}

func one(of []string, name string) bool {
	for _, s := range of {
		if s == name {
			return true
		}
	}
	return false
}

// standard tells whether a path is of the standard library: its first element has no dot, and it does not begin with our module.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && !strings.HasPrefix(path, module) && path != root
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	command := exec.Command("go", "list", "-json=ImportPath,Imports", "muster/...")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
