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
	// listenerNames answer requests, and offline the commands that want a stopped gateway. They do not import one another.
	listenerNames = []string{"nodeapi", "adminapi", "web", "oci", "offline"}

	// partNames are what the gateway is made of. They do not import one another. A part's backend may import its part.
	partNames = []string{
		"fleet", "authority", "bootstrap", "task", "release", "history", "health", "alert", "log", "session", "placement", "maas", "provider",
		"retention",
	}

	// sharedNames are what listeners and parts have in common: who calls, what is recorded, how is answered.
	sharedNames = []string{
		"account", "artifact", "audit", "build", "remote", "limit", "reply", "origin", "reading", "replay", "selector", "timeline", "door",
		"secret", "masterkey", "outage", "reach", "installer",
	}

	// leafNames are packages of one idea that need nothing of muster's.
	leafNames = []string{"gcpace", "paste", "reload", "runlist", "systemd", "window"}

	// installerNames deal with install.sh, which the package at the top carries, and with what vouches for a download.
	installerNames = []string{"gateway", "gateway/internal/installer", "gateway/internal/reach", "gateway/internal/bootstrap"}

	// machineNames know this machine: its data directory, its files and its shell. The command line works with them too.
	machineNames = []string{"archive", "datadir", "durable", "shellword"}
)

// recordNames are packages of records beside package store, which would be too large with them. They use its engine and its events.
var recordNames = []string{"store/registry", "store/releases"}

// clientName is the admin API as its callers see it: its shapes, which its server uses too.
const clientName = "client"

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
		{"store", "store/sqlite", true},
		{"store", "modernc.org/sqlite", false},
		{"store/sqlite", "modernc.org/sqlite", true},
		{"store/sqlite", "store", false},
		{"gateway/internal/fleet", "store/sqlite", false},
		{"store", "agent/wire", false},
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
		{"gateway/internal/cli", "gateway/internal/cli/screen", true},
		{"gateway/internal/cli", "gateway/internal/cli/node", false},
		{"gateway/internal/cli", "gateway/internal/cli/commands", false},
		{"gateway/internal/cli/node", "gateway/internal/cli", true},
		{"gateway/internal/cli/node", "gateway/internal/cli/screen", true},
		{"gateway/internal/cli/node", "gateway/internal/cli/token", false},
		{"gateway/internal/cli/commands", "gateway/internal/cli/node", true},
		{"gateway/internal/cli/screen", "gateway/internal/cli", false},
		{"gateway/internal/adminapi", "gateway/internal/client", true},
		{"gateway/internal/client", "gateway/internal/adminapi", false},
		{"gateway/internal/client", "store", false},
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
	protocol := to == "agent/wire" || to == "agent/sign"
	if to == root {
		return one(installerNames, from)
	}
	switch {
	case from == "agent/wire":
		return false
	case from == "agent/sign":
		return to == "agent/wire"
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
	below := protocol || to == "store" || one(recordNames, to) || one(leafNames, target) || one(machineNames, target)
	switch {
	case one(leafNames, name):
		return false
	case one(machineNames, name):
		return to == "agent/wire" || one(machineNames, target)
	case one(sharedNames, name):
		return below || one(sharedNames, target) || target == clientName
	case one(partNames, name):
		return below || one(sharedNames, target) || backend && target == name
	case one(listenerNames, name):
		return below || one(sharedNames, target) || one(partNames, target) || target == clientName
	case name == "cli":
		return protocol || target == clientName || one(machineNames, target) || commandLineEdge(from, target)
	default: // client, and programs for tests such as swarm
		return protocol
	}
}

// commandLineEdge keeps the command line in layers: what prints and the pages of help, the core, the groups of commands, their list.
func commandLineEdge(from, target string) bool {
	lowest := []string{"cli/screen", "cli/help"}
	switch {
	case one(lowest, from):
		return false
	case from == "cli/commands":
		return target == "cli" || strings.HasPrefix(target, "cli/")
	case from == "cli":
		return one(lowest, target)
	}
	return target == "cli" || one(lowest, target)
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
