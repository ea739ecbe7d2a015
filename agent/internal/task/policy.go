package task

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"muster/agent/disk"
	"muster/agent/sign"
	"muster/agent/wire"
)

// PolicyFile is the name of the file in which the node's owner says what the gateway may ask for.
const PolicyFile = "policy.json"

// maxPolicy bounds the file, in bytes.
const maxPolicy = 1 << 20

// Policy is what the node's owner allows, whatever the gateway signs. The zero value allows everything, and mounts nothing.
//
// A pattern is the name of a type of tasks or sessions, the beginning of names with .* at the end, such as workload.*, or * alone.
type Policy struct {
	Forbid []string `json:"forbid"` // patterns of types that are refused
	Allow  []string `json:"allow"`  // patterns; where there are any, every other type is refused
	// OperatorKeys demands for the types of a pattern that one of these keys has signed: base64 Ed25519 public keys. The gateway must
	// vouch for the key too. If two patterns name a type, the longer one counts.
	OperatorKeys map[string][]string `json:"operator_keys"`
	// ReleaseKeys demands that one of these keys has signed what the agent updates itself to: base64 Ed25519 public keys. The gateway must
	// vouch for the key too. If there are OperatorKeys and none of these, the agent does not update itself.
	ReleaseKeys []string `json:"release_keys"`
	MountRoots  []string `json:"mount_roots"` // folders below which a workload may mount

	SessionUsers []string `json:"session_users"` // users that sessions may be; null: any
	ForwardPorts []string `json:"forward_ports"` // that sessions may reach, such as "22" and "8000-8999"; null: any
	ForwardHosts []string `json:"forward_hosts"` // that sessions may reach beside the node itself: addresses, networks, names
}

// LoadPolicy reads the first of the files that exists. It is no error if none exists. It is an error if another user than this one and root
// could have written the file, or if anything in it is not understood: then nothing may be done.
func LoadPolicy(files ...string) (Policy, error) {
	for _, file := range files {
		raw, err := readOwned(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Policy{}, fmt.Errorf("the policy %s cannot be relied on: %w", file, err)
		}
		p, err := parsePolicy(raw)
		if err != nil {
			return Policy{}, fmt.Errorf("the policy %s is wrong: %w", file, err)
		}
		return p, nil
	}
	return Policy{}, nil
}

// readOwned reads a file that only root and this user can change or replace.
func readOwned(path string) ([]byte, error) {
	file, info, err := disk.OpenFile(path)
	if err != nil {
		return nil, missing(path, err)
	}
	defer file.Close()
	if err := owned(info); err != nil {
		return nil, err
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err == nil {
		err = owned(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("its folder: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxPolicy+1))
	if err == nil && len(raw) > maxPolicy {
		err = fmt.Errorf("it is larger than %d bytes", maxPolicy)
	}
	return raw, err
}

// missing tells a file that is not there from a link that leads nowhere, as to a file system that is not mounted now. Its owner has a
// policy, and nobody knows what it says.
func missing(path string, err error) error {
	if _, there := os.Lstat(path); there == nil && errors.Is(err, fs.ErrNotExist) {
		return errors.New("it is a link, and what it leads to is not there")
	}
	return err
}

// owned refuses what another user could have written.
func owned(info fs.FileInfo) error {
	status, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || status.Uid != 0 && int(status.Uid) != os.Geteuid():
		return errors.New("another user owns it: make root its owner (chown root)")
	case info.Mode().Perm()&0o022 != 0:
		return errors.New("other users may write it: take that from them (chmod go-w)")
	}
	return nil
}

func parsePolicy(raw []byte) (Policy, error) {
	var p Policy
	if err := sign.DecodeStrict(raw, &p); err != nil {
		return p, err
	}
	patterns := slices.Concat(p.Forbid, p.Allow)
	for pattern, keys := range p.OperatorKeys {
		patterns = append(patterns, pattern)
		for _, key := range keys {
			if _, err := sign.DecodeKey(key); err != nil {
				return p, fmt.Errorf("operator_keys: %.60q is not an Ed25519 public key in base64", key)
			}
		}
	}
	for _, key := range p.ReleaseKeys {
		if _, err := sign.DecodeKey(key); err != nil {
			return p, fmt.Errorf("release_keys: %.60q is not an Ed25519 public key in base64", key)
		}
	}
	for _, pattern := range patterns {
		if !namesType(pattern) {
			return p, fmt.Errorf("%.60q names no task type, and no type of session: muster task types lists those of tasks", pattern)
		}
	}
	for _, root := range p.MountRoots {
		if !filepath.IsAbs(root) || filepath.Clean(root) != root {
			return p, fmt.Errorf("mount_roots: %.60q is not an absolute path in its shortest form", root)
		}
	}
	return p, p.checkForward()
}

func namesType(pattern string) bool {
	return slices.ContainsFunc(wire.TaskTypes(), func(t wire.TaskType) bool { return matches(pattern, t.Name) }) ||
		slices.ContainsFunc(wire.SessionTypes(), func(t wire.SessionType) bool { return matches(pattern, t.Name) })
}

// matches tells whether a pattern names a type.
func matches(pattern, name string) bool {
	if pattern == "*" || pattern == name {
		return true
	}
	family, found := strings.CutSuffix(pattern, "*")
	return found && strings.HasSuffix(family, ".") && strings.HasPrefix(name, family)
}

func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

// Check refuses a type that the policy does not allow, or that another key has signed than the policy demands. key is the one that verified
// the task. TaskWorkloadProcess came after SessionExec, and an owner who forbids SessionExec means that type too: for the author of an
// older policy, workload.* meant containers. The refusal has the code wire.CodeTaskForbidden.
func (p Policy) Check(name string, key ed25519.PublicKey) error {
	const hint = "its owner changes " + PolicyFile + " there, or another node does the work"
	switch {
	case p.forbids(name):
		return wire.Refuse(wire.CodeTaskForbidden, "the policy of this node does not allow "+name, hint)
	case name == wire.TaskWorkloadProcess && p.forbids(wire.SessionExec):
		return wire.Refuse(wire.CodeTaskForbidden, "the policy of this node does not allow "+wire.SessionExec+", and so no "+name+
			", which runs a program on the node itself too", hint)
	case !p.signedWell(name, key):
		return wire.Refuse(wire.CodeTaskForbidden, "the policy of this node demands an operator's signature for "+name,
			"sign it with one of the keys that the policy names: --key FILE")
	case name == wire.TaskWorkloadProcess:
		return p.checkNamed(name)
	}
	return nil
}

func (p Policy) forbids(name string) bool {
	return anyMatches(p.Forbid, name) || p.Allow != nil && !anyMatches(p.Allow, name)
}

func (p Policy) signedWell(name string, key ed25519.PublicKey) bool {
	pattern := p.keysFor(name)
	return pattern == "" || among(p.OperatorKeys[pattern], key)
}

// checkNamed refuses a type of which OperatorKeys says nothing, if it has keys for others: an owner who demands operators' keys, and did
// not know this type, does not want the gateway's own key to start programs.
func (p Policy) checkNamed(name string) error {
	if len(p.OperatorKeys) == 0 || p.keysFor(name) != "" {
		return nil
	}
	return wire.Refuse(wire.CodeTaskForbidden, "the policy of this node demands operators' keys for tasks, and says nothing of "+name,
		"its owner adds "+name+" or session.* to operator_keys in "+PolicyFile+" there")
}

// keysFor is the longest pattern of OperatorKeys that names a type; empty: none does. A program takes the keys of SessionExec if it has
// none itself.
func (p Policy) keysFor(name string) string {
	longest := ""
	for pattern := range p.OperatorKeys {
		if matches(pattern, name) && len(pattern) > len(longest) {
			longest = pattern
		}
	}
	if longest == "" && name == wire.TaskWorkloadProcess {
		return p.keysFor(wire.SessionExec)
	}
	return longest
}

// CheckRelease refuses a release that another key has signed than the policy demands. key is the one that verified it.
func (p Policy) CheckRelease(key ed25519.PublicKey) error {
	switch {
	case len(p.ReleaseKeys) > 0 && !among(p.ReleaseKeys, key):
		return errors.New("the policy of this node demands another signature for releases: " +
			"sign it with one of the release_keys that " + PolicyFile + " names")
	case len(p.ReleaseKeys) == 0 && len(p.OperatorKeys) > 0:
		return errors.New("the policy of this node demands operators' keys for tasks, and names none for releases: " +
			"its owner adds release_keys to " + PolicyFile)
	}
	return nil
}

// among reports whether a key is one of those of the policy. The whole key counts: an id is short enough to make another key for it.
func among(keys []string, key ed25519.PublicKey) bool {
	return slices.ContainsFunc(keys, func(text string) bool {
		one, err := sign.DecodeKey(text)
		return err == nil && one.Equal(key)
	})
}
