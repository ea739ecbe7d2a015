package account

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"

	"muster/agent/wire"
)

// Login is an account of this machine, as one logs in to it.
type Login struct {
	Name, Home, Shell string
	UID, GID          int
	Groups            []int // GID among them
}

// Login finds an account by its name; empty: the account that the agent runs as, which need not stand in /etc/passwd.
func (a *Accounts) Login(name string) (Login, error) {
	t, err := a.tables()
	if err != nil && name != "" {
		return Login{}, fmt.Errorf("read the accounts of this machine: %w", err)
	}
	at := slices.IndexFunc(t.users, func(e entry) bool { return e.name == name || name == "" && e.uid == a.UID })
	switch {
	case at < 0 && name == "":
		return a.nameless(), nil
	case at < 0:
		return Login{}, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("there is no user %.32q on the node", name),
			"its /etc/passwd lists them; muster task run provision_user makes one")
	}
	return t.login(t.users[at]), nil
}

func (t tables) login(e entry) Login {
	l := Login{Name: e.name, Home: e.home, Shell: cmp.Or(e.shell, plainShell), UID: e.uid, GID: e.gid, Groups: []int{e.gid}}
	for _, g := range t.groups {
		if slices.Contains(g.members, e.name) && !slices.Contains(l.Groups, g.gid) {
			l.Groups = append(l.Groups, g.gid)
		}
	}
	return l
}

const plainShell = "/bin/sh"

// nameless is the agent's own user where the machine does not name it, as in a container.
func (a *Accounts) nameless() Login {
	gid := os.Getegid()
	home := cmp.Or(os.Getenv("HOME"), "/")
	return Login{Name: strconv.Itoa(a.UID), Home: home, Shell: plainShell, UID: a.UID, GID: gid, Groups: []int{gid}}
}
