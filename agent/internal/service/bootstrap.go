package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What a bootstrap script puts on a machine, beside the agent with its settings and its state.
const (
	bundlePath   = musterFolder + "/ca-bundle.crt"
	tokenPath    = musterFolder + "/bootstrap-token"
	firstHopUnit = "muster-first-hop.service"
	hostsMark    = " # muster-bootstrap" // the end of its lines in hosts files
)

// bootstrapFiles are patterns. The bundle comes last: registryTrust needs it, also when leave runs again after an interruption.
var bootstrapFiles = [...]string{
	tokenPath, musterFolder + "/first-hop.sh", musterFolder + "/.bootstrap.*",
	systemUnits + "multi-user.target.wants/" + firstHopUnit, systemUnits + "." + firstHopUnit,
	"/run/muster-bootstrap.sh", "/run/muster-bootstrap.status", "/run/muster-bootstrap.lock", "/run/muster-first-hop.*", bundlePath,
}

// hostsFiles are the file in use, and the templates from which cloud-init makes it.
var hostsFiles = [...]string{"/etc/hosts", "/etc/cloud/templates/host*.tmpl"}

// BootstrapToken returns the file in which cloud-init leaves a bootstrap token. The token is of no use after the enrolment.
func (m Manager) BootstrapToken() string { return m.path(tokenPath) }

// RemoveBootstrap removes what a bootstrap script put outside of the agent's own places. stays says, for a person, what is left
// because other programs may need it by now, and how to remove it.
func (m Manager) RemoveBootstrap(ctx context.Context) (removed, stays []string, err error) {
	for _, path := range m.registryTrust() {
		stays = append(stays, path+" (trust in a registry): remove it where nothing needs it")
	}
	stays = append(stays, m.bootstrapStays()...)
	if unit := m.path(systemUnits + firstHopUnit); exists(unit) {
		if _, err := m.systemctl(ctx, false, "disable", "--no-reload", "--now", firstHopUnit); err != nil && m.runsSystemd() {
			return removed, stays, fmt.Errorf("%w: read what systemctl says, then leave again", err)
		}
		if err := m.remove(unit); err != nil {
			return removed, stays, err
		}
		removed = append(removed, unit)
	}
	for _, path := range m.found(hostsFiles[:]) {
		changed, err := m.edit(path, unmarked)
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

// RemoveBootstrapFolder removes the folder of the settings if it is empty.
func (m Manager) RemoveBootstrapFolder() { os.Remove(m.path(musterFolder)) }

// leftovers are the files that a bootstrap script left in the state directory. One that was interrupted leaves more of them.
func (m Manager) leftovers() (paths []string) {
	for _, pattern := range []string{".bootstrap.*", ".bootstrap-agent", ".runtime-begun", staysFile} {
		more, _ := filepath.Glob(filepath.Join(m.Base, pattern))
		paths = append(paths, more...)
	}
	return paths
}

// staysFile is a file in the state directory in which a script notes what other programs may need by now: "runtime PACKAGE..." for
// packages that it installed, "login ENGINE REGISTRY" for a login that it made.
const staysFile = ".bootstrap-stays"

// bootstrapStays says for each line of that file what stays, and how a person removes it.
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

// found lists the files of the machine that fit one of the patterns.
func (m Manager) found(patterns []string) (paths []string) {
	for _, pattern := range patterns {
		more, _ := filepath.Glob(m.path(pattern))
		paths = append(paths, more...)
	}
	return paths
}

// registryTrust lists the certificates of registries that are copies of the bootstrap's bundle.
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

// unmarked is the text of a hosts file without a bootstrap's lines.
func unmarked(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(strings.TrimRight(line, " \t\r\n"), hostsMark) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// bootstrapTraces lists what a bootstrap script, or the first hop before it, has put on the machine.
func (m Manager) bootstrapTraces() (paths []string) {
	if unit := m.path(systemUnits + firstHopUnit); exists(unit) {
		paths = append(paths, unit)
	}
	for _, path := range m.found(hostsFiles[:]) {
		if text, err := os.ReadFile(path); err == nil && unmarked(string(text)) != string(text) {
			paths = append(paths, path)
		}
	}
	return append(paths, m.found(bootstrapFiles[:])...)
}
