package session

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

// person is a user of this machine.
type person struct {
	name        string
	uid, gid    int
	groups      []int
	home, shell string
}

// person finds the user of a session; an empty name: the agent's own. The node's owner may allow some alone.
func (o *opening) person(name string) (person, error) {
	l, err := o.Accounts.Login(name)
	if err != nil {
		return person{}, err
	}
	who := person{name: l.Name, uid: l.UID, gid: l.GID, groups: l.Groups, home: l.Home, shell: l.Shell}
	if err := o.policy.CheckUser(who.name); err != nil {
		return who, err
	}
	switch {
	case who.uid < 0 || who.uid >= math.MaxUint32 || who.gid < 0 || who.gid >= math.MaxUint32:
		return who, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("the user %.32q has no number that can be", name),
			"see /etc/passwd there")
	case os.Geteuid() != 0 && who.uid != os.Geteuid():
		return who, wire.Refuse(wire.CodeTaskForbidden, "the agent on the node runs as an ordinary user, and cannot act as another one",
			"leave --user out, or join the node as root")
	}
	return who, nil
}

// credential are the rights of the user; nil: those that the agent has.
func (p person) credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	c := &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid)}
	for _, id := range p.groups {
		c.Groups = append(c.Groups, uint32(id))
	}
	return c
}

// folder is where the user's programs start.
func (p person) folder() string {
	if info, err := os.Stat(p.home); err == nil && info.IsDir() && strings.HasPrefix(p.home, "/") {
		return p.home
	}
	return "/"
}

const (
	rootPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	userPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
)

// environ is what the user's programs get. What the agent's own environment holds beside its own variables may be meant for its user, and
// for nobody else. term is empty if there is no terminal.
func (p person) environ(term string) []string {
	var all []string
	path := userPath
	if p.uid == 0 {
		path = rootPath
	}
	if p.uid == os.Geteuid() {
		all = slices.DeleteFunc(child.Environ(), ofService)
	}
	set := [][2]string{{"HOME", p.home}, {"SHELL", p.shell}, {"USER", p.name}, {"LOGNAME", p.name}, {"TERM", term}}
	if value(all, "PATH") == "" {
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

func value(environ []string, name string) string {
	for _, entry := range environ {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}
