package service

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What a bootstrap script puts on a machine beside the agent, its settings and its state.
const (
	bootstrapFolder = "/etc/muster"
	bundlePath      = bootstrapFolder + "/ca-bundle.crt"
	firstHopUnit    = "muster-first-hop.service"
	hostsMark       = " # muster-bootstrap" // ends its lines in hosts files
)

// bootstrapFiles are patterns. The bundle comes last: by it the trust of registries is recognised.
var bootstrapFiles = [...]string{
	bootstrapFolder + "/bootstrap-token", bootstrapFolder + "/first-hop.sh", bootstrapFolder + "/.bootstrap.*",
	"/etc/systemd/system/multi-user.target.wants/" + firstHopUnit, "/etc/systemd/system/." + firstHopUnit, "/run/muster-bootstrap.sh", "/run/muster-bootstrap.status", "/run/muster-bootstrap.lock", "/run/muster-first-hop.*", bundlePath,
}

// hostsFiles are the one in use and those that cloud-init makes it from.
var hostsFiles = [...]string{"/etc/hosts", "/etc/cloud/templates/host*.tmpl"}

// BootstrapToken is where cloud-init and helpers leave a bootstrap token, which is of no use once it has enrolled.
func (m Manager) BootstrapToken() string { return m.path(bootstrapFolder + "/bootstrap-token") }

// RemoveBootstrap takes away what a bootstrap script put outside of the agent's own places. stays says, for a person, what of
// it is left and what to do with it: other programs may rely on it by now.
func (m Manager) RemoveBootstrap(ctx context.Context) (removed, stays []string, err error) {
	for _, path := range m.registryTrust() {
		stays = append(stays, path+" (trust in a registry): remove it where nothing needs it")
	}
	stays = append(stays, m.bootstrapStays()...)
	if unit := m.path("/etc/systemd/system/" + firstHopUnit); exists(unit) {
		if _, err := m.systemctl(ctx, false, "disable", "--no-reload", "--now", firstHopUnit); err != nil && isDirectory(m.path("/run/systemd/system")) {
			return removed, stays, fmt.Errorf("%w: read what systemctl says, then leave again", err)
		}
		if err := remove(unit); err != nil {
			return removed, stays, err
		}
		removed = append(removed, unit)
	}
	for _, path := range m.found(hostsFiles[:]) {
		changed, err := dropMarked(path)
		switch {
		case err != nil:
			stays = append(stays, fmt.Sprintf("lines of %s that end in%s (%v): remove them by hand", path, hostsMark, err))
		case changed:
			removed = append(removed, "the bootstrap's line in "+path)
		}
	}
	for _, path := range append(m.found(bootstrapFiles[:]), m.leftovers()...) {
		if err := os.RemoveAll(path); err != nil {
			return removed, stays, explain(path, err)
		}
		removed = append(removed, path)
	}
	return removed, stays, nil
}

// RemoveBootstrapFolder removes the folder of the settings where nothing is in it any more.
func (m Manager) RemoveBootstrapFolder() { os.Remove(m.path(bootstrapFolder)) }

// leftovers are what a script, and one that was stopped, left in the state directory.
func (m Manager) leftovers() (paths []string) {
	for _, pattern := range []string{".bootstrap.*", ".runtime-begun", staysFile} {
		more, _ := filepath.Glob(filepath.Join(m.Base, pattern))
		paths = append(paths, more...)
	}
	return paths
}

// staysFile is where a script notes in the state directory what other programs may rely on by now: "runtime PACKAGE..." that it
// installed, "login ENGINE REGISTRY" that it made.
const staysFile = ".bootstrap-stays"

// bootstrapStays says of each line what it is and how it goes.
func (m Manager) bootstrapStays() (stays []string) {
	raw, err := os.ReadFile(filepath.Join(m.Base, staysFile))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(oneLine(line))
		text := ""
		switch {
		case len(words) > 1 && words[0] == "runtime":
			packages := strings.Join(words[1:], " ")
			text = "the container runtime that the bootstrap installed (" + packages + "): where nothing needs it, apt-get purge " + packages
		case len(words) == 3 && words[0] == "login":
			text = "the login of " + words[1] + " at the registry " + words[2] + ": where nothing needs it, " + words[1] + " logout " + words[2]
		}
		if text != "" && !slices.Contains(stays, text) {
			stays = append(stays, text)
		}
	}
	return stays
}

func (m Manager) found(patterns []string) (paths []string) {
	for _, pattern := range patterns {
		more, _ := filepath.Glob(m.path(pattern))
		paths = append(paths, more...)
	}
	return paths
}

// registryTrust are the certificates of registries that are the bootstrap's bundle.
func (m Manager) registryTrust() (paths []string) {
	bundle, err := os.ReadFile(m.path(bundlePath))
	if err != nil {
		return nil
	}
	for _, path := range m.found([]string{"/etc/docker/certs.d/*/ca.crt", "/etc/containers/certs.d/*/ca.crt"}) {
		if same(path, bundle) {
			paths = append(paths, path)
		}
	}
	return paths
}

func marked(line []byte) bool {
	return strings.HasSuffix(strings.TrimRight(string(line), " \t\r\n"), hostsMark)
}

// bootstrapTraces are what a bootstrap script, or the first hop before it, has put on the machine.
func (m Manager) bootstrapTraces() (paths []string) {
	if unit := m.path("/etc/systemd/system/" + firstHopUnit); exists(unit) {
		paths = append(paths, unit)
	}
	for _, path := range m.found(hostsFiles[:]) {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if marked(line) {
				paths = append(paths, path)
				break
			}
		}
	}
	return append(paths, m.found(bootstrapFiles[:])...)
}

// dropMarked removes a bootstrap's lines from a hosts file. It follows links.
func dropMarked(path string) (changed bool, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return false, err
	}
	before, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	var after bytes.Buffer
	for line := range bytes.Lines(before) {
		if !marked(line) {
			after.Write(line)
		}
	}
	if after.Len() == len(before) {
		return false, nil
	}
	return true, rewrite(path, after.Bytes())
}
