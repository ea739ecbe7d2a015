package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module = "muster/"
	root   = "muster" // the package at the top, which carries the installer
)

// The house of gateway/internal: each folder stands in one storey, and what lies below a folder stands in the folder's storey.
var (
	// listenerNames answer requests, and backup answers the commands that want a stopped gateway.
	listenerNames = []string{"nodeapi", "adminapi", "console", "oci", "backup"}
	// partNames are what the gateway is made of.
	partNames = []string{
		"fleet", "authority", "bootstrap", "task", "release", "history", "health", "logs", "session", "placement", "maas", "provider", "cluster",
	}
	// sharedNames is what listeners and parts have in common.
	sharedNames = []string{
		"view", "account", "audit", "reply", "artifact", "datadir", "label", "httpserver", "paste",
	}
)

// formatNames are packages that read or write one format and know nothing of the gateway. Everybody below gateway may use them.
var formatNames = []string{
	"artifact/executable", "backup/archive", "datadir", "health/condition", "httpserver/daemon", "paste",
	"session/asciicast",
}

// recordNames are packages of records beside package store. They use its engine and its events.
var recordNames = []string{"store/alerts", "store/costs", "store/health", "store/history", "store/instance", "store/maas",
	"store/placement", "store/provider", "store/registry", "store/releases", "store/sessions"}

// protocolNames is what agent and gateway have in common: what they say to each other, and both ends of it.
var protocolNames = []string{"agent/wire", "agent/flags", "agent/sign", "agent/pipe", "agent/pipe/tree", "agent/spool", "agent/disk"}

// installerNames deal with install.sh, which the package at the top carries, and with what vouches for a download.
var installerNames = []string{"gateway", "gateway/internal/bootstrap", "gateway/internal/bootstrap/reach"}

// apiName is the admin API as its callers see it. Packages below it have the shapes of large parts.
const apiName = "gateway/api"

func isAPI(name string) bool { return name == apiName || strings.HasPrefix(name, apiName+"/") }

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
	const g = "gateway/internal/"
	for _, edge := range []struct {
		from, to string
		ok       bool
	}{
		{"agent", "agent/internal/gpu", true},
		{"agent", "modernc.org/sqlite", false},
		{"agent", "muster", false},
		{"agent/internal/gpu", "agent/wire", true},
		{"agent/internal/gpu", "store", false},
		{"agent/wire", "agent/internal/gpu", false},
		{"agent/wire", "agent/sign", false},
		{"agent/sign", "agent/wire", true},
		{"agent/pipe", "agent/sign", false},
		{"agent/pipe/tree", "agent/pipe", true},
		{"agent/pipe", "agent/pipe/tree", false},
		{"agent/flags", "agent/wire", true},
		{"agent/flags", "agent/sign", false},
		{"agent/spool", "agent/disk", true},
		{"agent/spool", "agent/internal/gpu", false},
		{"agent/disk", "agent/wire", false},
		{"store", "store/sqlite", true},
		{"store", "modernc.org/sqlite", false},
		{"store", "agent/wire", false},
		{"store", "store/releases", false},
		{"store", "muster", false},
		{"store/sqlite", "modernc.org/sqlite", true},
		{"store/sqlite", "store", false},
		{"store", "store/rqlite", true},
		{"store", "store/rqlite/rqlitetest", false},
		{"store/rqlite", "store/engine", true},
		{"store/rqlite", "store/sqlite", false},
		{"store/rqlite", "modernc.org/sqlite", false},
		{"store/engine", "store", false},
		{"store/releases", "store/engine", true},
		{"store/releases", "store/rqlite", false},
		{g + "cluster", "store/rqlite", true},
		{g + "cluster", "store/engine", false},
		{g + "fleet", "store/rqlite", false},
		{g + "kit", "store/storetest", true},
		{"gateway", "store/rqlite", false},
		{"store/releases", "store", true},
		{"store/releases", "store/registry", false},
		{"store/history", "modernc.org/sqlite", false},
		{apiName, "agent/wire", true},
		{apiName, "store", false},
		{apiName, g + "view", false},
		{g + "fleet", "store", true},
		{g + "fleet", "store/sqlite", false},
		{g + "fleet", "modernc.org/sqlite", false},
		{g + "fleet", g + "authority", false},
		{g + "fleet", g + "audit", true},
		{g + "fleet", g + "client", false},
		{g + "fleet", g + "fleet/clash", true},
		{g + "fleet", "muster", false},
		{g + "task", g + "fleet/clash", false},
		{g + "health", g + "health/alert", true},
		{g + "health/alert", g + "health", true},
		{g + "health/alert", g + "release", false},
		{g + "authority/stepca", g + "authority", true},
		{g + "release", g + "artifact", true},
		{g + "artifact", g + "oci", false},
		{g + "audit", g + "fleet", false},
		{g + "view", "store", true},
		{g + "view", apiName, true},
		{g + "bootstrap", "muster", true},
		{g + "bootstrap/reach", "muster", true},
		{g + "nodeapi", "muster", false},
		{g + "nodeapi", g + "fleet", true},
		{g + "nodeapi", g + "release/rollout", true},
		{g + "nodeapi", g + "adminapi", false},
		{g + "nodeapi", g + "adminapi/metrics", false},
		{g + "adminapi", g + "adminapi/metrics", true},
		{g + "console", g + "adminapi", false},
		{g + "console", g + "client", true},
		{g + "console", g + "cli/help", true},
		{g + "console", g + "cli/tty", false},
		{g + "console/scrollback", g + "cli/screen", true},
		{g + "oci", g + "client", false},
		{g + "nodeapi", g + "client", false},
		{g + "client", g + "adminapi", false},
		{g + "client", "store", false},
		{g + "client", apiName, true},
		{g + "cli", g + "client", true},
		{g + "cli", "agent/flags", true},
		{g + "cli", g + "adminapi", false},
		{g + "cli", g + "fleet", false},
		{g + "cli", "store", false},
		{g + "cli", g + "datadir", true},
		{g + "cli", g + "datadir/masterkey", false},
		{g + "cli/session", g + "session/asciicast", true},
		{g + "cli/session", g + "session", false},
		{g + "cli", g + "cli/screen", true},
		{g + "cli", g + "cli/node", false},
		{g + "cli", g + "cli/commands", false},
		{g + "cli/node", g + "cli", true},
		{g + "cli/node", g + "cli/join", false},
		{g + "cli/commands", g + "cli/node", true},
		{g + "cli/screen", g + "cli", false},
		{g + "cli/fleet", g + "cli/live", true},
		{g + "cli/live", g + "cli/fleet", false},
		{g + "cli/task", g + "cli/work", true},
		{g + "cli/remote", "agent/pipe", true},
		{g + "cli/tty", g + "cli", false},
		{g + "cli/spelling", g + "cli", false},
		{g + "cli/meaning", g + "cli", false},
		{g + "kit/swarm", "agent/sign", true},
		{g + "kit/swarm", "store", false},
		{g + "kit/cloudsim/vast", g + "kit/cloudsim", true},
		{g + "kit/cloudsim", g + "kit/cloudsim/vast", false},
		{g + "kit/cloudsim/vast", g + "provider/cloud", false},
		{g + "kit/demo", g + "kit/cloudsim/vast", true},
		{g + "kit/demo", "store", false},
		{g + "kit", "store", true},
		{"gateway", "muster", true},
		{"gateway", g + "cli", true},
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
	if to == root {
		return slices.Contains(installerNames, from)
	}
	below := slices.Contains(protocolNames, to)
	records := to == "store" || slices.Contains(recordNames, to)
	switch {
	case from == "agent/wire" || from == "agent/disk":
		return false
	case slices.Contains(protocolNames, from):
		return to == "agent/wire" || to == "agent/disk" || from == "agent/pipe/tree" && to == "agent/pipe"
	case from == "agent" || strings.HasPrefix(from, "agent/"):
		return inside && (to == "agent" || strings.HasPrefix(to, "agent/"))
	case from == "store" || strings.HasPrefix(from, "store/"):
		return storeEdge(from, to)
	case isAPI(from):
		return below
	case from == "gateway":
		return below || records || isAPI(to) || strings.HasPrefix(to, "gateway/internal/")
	}
	from, gateway := strings.CutPrefix(from, "gateway/internal/")
	return gateway && internalEdge(from, to, below, records)
}

// storeEdge is allowed's table for the store: what engines share, the engines, the store over them, and the records beside it.
func storeEdge(from, to string) bool {
	engines := to == "store/engine" || to == "store/sqlite"
	switch from {
	case "store/engine":
		return false
	case "store/sqlite":
		return to == "store/engine" || to == "modernc.org/sqlite" || strings.HasPrefix(to, "modernc.org/sqlite/")
	case "store/rqlite":
		return to == "store/engine"
	case "store/rqlite/rqlitetest":
		return to == "store/sqlite"
	case "store":
		return engines || to == "store/rqlite"
	case "store/storetest":
		return to == "store" || strings.HasPrefix(to, "store/rqlite")
	}
	return engines || to == "store"
}

// internalEdge is allowed's table for gateway/internal. A folder uses what lies below it, and the storeys below its own.
func internalEdge(from, to string, below, records bool) bool {
	target := strings.TrimPrefix(to, "gateway/internal/")
	folder, _, _ := strings.Cut(from, "/")
	room, _, _ := strings.Cut(target, "/")
	if below || isAPI(to) || slices.Contains(formatNames, target) {
		return true
	}
	in := func(storeys ...[]string) bool { return slices.Contains(slices.Concat(storeys...), room) }
	switch {
	case folder == "cli":
		return target == "client" || commandLineEdge(from, target)
	case slices.Contains(listenerNames, folder):
		own := room == folder
		shown := folder == "console" && (target == "cli/help" || target == "cli/screen") // pages of muster help, what a terminal showed
		asks := target == "client" && folder == "console"
		return records || own || shown || asks || in(partNames, sharedNames)
	case folder == "cluster" && to == "store/rqlite":
		return true
	case slices.Contains(partNames, folder):
		return records || room == folder || in(sharedNames)
	case slices.Contains(sharedNames, folder):
		return records || in(sharedNames)
	}
	simulators := strings.HasPrefix(from, "kit/cloudsim/") && target == "kit/cloudsim" || from == "kit/demo" && strings.HasPrefix(target,
		"kit/")
	return simulators || from == "kit" && (records || to == "store/storetest") // below it are programs for tests too, such as kit/swarm
}

// commandLineEdge keeps the command line in layers: what prints, terminals and the pages of help; the core; what several groups of commands
// use; the groups of commands; their list.
func commandLineEdge(from, target string) bool {
	lowest := []string{"cli/screen", "cli/help", "cli/tty", "cli/spelling", "cli/meaning"}
	switch {
	case slices.Contains(lowest, from):
		return false
	case from == "cli/commands":
		return target == "cli" || strings.HasPrefix(target, "cli/")
	case from == "cli":
		return slices.Contains(lowest, target)
	}
	return target == "cli" || slices.Contains(lowest, target) || target == "cli/live" || target == "cli/work"
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
