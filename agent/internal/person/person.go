// Package person is a user of this machine as whom programs are started: the rights, the environment, and where a program is found.
package person

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"muster/agent/internal/account"
	"muster/agent/internal/child"
	"muster/agent/wire"
)

// Person is a user of this machine.
type Person struct{ account.Login }

// Find finds a user; an empty name: the agent's own. may refuses users that the node's owner does not allow.
func Find(accounts *account.Accounts, name string, may func(user string) error) (Person, error) {
	l, err := accounts.Login(name)
	if err != nil {
		return Person{}, err
	}
	who := Person{l}
	if err := may(who.Name); err != nil {
		return who, err
	}
	switch {
	case who.UID < 0 || who.UID >= math.MaxUint32 || who.GID < 0 || who.GID >= math.MaxUint32:
		return who, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("the user %.32q has no number that can be", name),
			"see /etc/passwd there")
	case os.Geteuid() != 0 && who.UID != os.Geteuid():
		return who, wire.Refuse(wire.CodeTaskForbidden, "the agent on the node runs as an ordinary user, and cannot act as another one",
			"leave --user out, or join the node as root")
	}
	return who, nil
}

// Credential returns the rights of the user; nil: those that the agent has.
func (p Person) Credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	c := &syscall.Credential{Uid: uint32(p.UID), Gid: uint32(p.GID)}
	for _, id := range p.Groups {
		c.Groups = append(c.Groups, uint32(id))
	}
	return c
}

// Folder returns the folder in which the user's programs start.
func (p Person) Folder() string {
	if info, err := os.Stat(p.Home); err == nil && info.IsDir() && strings.HasPrefix(p.Home, "/") {
		return p.Home
	}
	return "/"
}

const (
	rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	userPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
)

// Environ returns the environment of the user's programs. Other variables in the agent's own environment may be meant only for its user, so
// they are left out for other users. term is empty if there is no terminal.
func (p Person) Environ(term string) []string {
	var all []string
	path := userPath
	if p.UID == 0 {
		path = rootPath
	}
	if p.UID == os.Geteuid() {
		all = slices.DeleteFunc(child.Environ(), ofService)
	}
	set := [][2]string{{"HOME", p.Home}, {"SHELL", p.Shell}, {"USER", p.Name}, {"LOGNAME", p.Name}, {"TERM", term}}
	if Variable(all, "PATH") == "" {
		set = append(set, [2]string{"PATH", path})
	}
	for _, pair := range set {
		all = slices.DeleteFunc(all, func(entry string) bool { return strings.HasPrefix(entry, pair[0]+"=") })
		if pair[1] != "" {
			all = append(all, pair[0]+"="+pair[1])
		}
	}
	return wire.WithoutEnv(all)
}

// ofService tells whether a variable is what a service manager says to a service and to nobody else.
func ofService(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	switch name {
	case "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "INVOCATION_ID", "JOURNAL_STREAM",
		"CREDENTIALS_DIRECTORY", "STATE_DIRECTORY", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE":
		return true
	}
	return false
}

// Variable returns the value of a variable; empty: it is not there.
func Variable(environ []string, name string) string {
	for _, entry := range environ {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}
