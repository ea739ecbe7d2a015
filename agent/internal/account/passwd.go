package account

import (
	"bytes"
	"muster/agent/disk"
	"slices"
	"strconv"
	"strings"
)

// maxTable bounds /etc/passwd and the like, in bytes.
const maxTable = 16 << 20

// entry is a line of /etc/passwd.
type entry struct {
	name, comment, home, shell string
	uid, gid                   int
}

// group is a line of /etc/group.
type group struct {
	name    string
	gid     int
	members []string
}

// parsePasswd reads /etc/passwd. It skips lines that are no entries, as the system does. Of two entries with one name the first counts.
func parsePasswd(text []byte) []entry {
	var all []entry
	for fields := range rows(text, 7) {
		uid, err := strconv.Atoi(fields[2])
		gid, bad := strconv.Atoi(fields[3])
		if err == nil && bad == nil && fields[0] != "" {
			all = append(all, entry{name: fields[0], comment: fields[4], home: fields[5], shell: fields[6], uid: uid, gid: gid})
		}
	}
	return all
}

// parseGroups reads /etc/group in the same way.
func parseGroups(text []byte) []group {
	var all []group
	for fields := range rows(text, 4) {
		gid, err := strconv.Atoi(fields[2])
		if err != nil || fields[0] == "" {
			continue
		}
		one := group{name: fields[0], gid: gid}
		if fields[3] != "" {
			one.members = strings.Split(fields[3], ",")
		}
		all = append(all, one)
	}
	return all
}

// rows gives the lines with this number of fields.
func rows(text []byte, fields int) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for line := range bytes.Lines(text) {
			row := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
			if len(row) == fields && !yield(row) {
				return
			}
		}
	}
}

// tables are the machine's own accounts and groups.
type tables struct {
	users  []entry
	groups []group
}

func (a *Accounts) tables() (tables, error) {
	users, err := readTable(a.path("/etc/passwd"))
	if err != nil {
		return tables{}, err
	}
	groups, err := readTable(a.path("/etc/group"))
	if err != nil {
		return tables{}, err
	}
	return tables{parsePasswd(users), parseGroups(groups)}, nil
}

func readTable(path string) ([]byte, error) { return disk.ReadFile(path, maxTable) }

// user finds an account by its name.
func (t tables) user(name string) (entry, bool) {
	at := slices.IndexFunc(t.users, func(e entry) bool { return e.name == name })
	if at < 0 {
		return entry{}, false
	}
	return t.users[at], true
}

// missing is the first of these groups that is not there, empty if all are.
func (t tables) missing(names []string) string {
	for _, name := range names {
		if !slices.ContainsFunc(t.groups, func(g group) bool { return g.name == name }) {
			return name
		}
	}
	return ""
}

// joined are the groups that list this user as a member.
func (t tables) joined(user string) []string {
	var names []string
	for _, g := range t.groups {
		if slices.Contains(g.members, user) {
			names = append(names, g.name)
		}
	}
	return names
}

// uses tells whether a number belongs to a user or a group.
func (t tables) uses(number int) bool {
	return slices.ContainsFunc(t.users, func(e entry) bool { return e.uid == number }) ||
		slices.ContainsFunc(t.groups, func(g group) bool { return g.gid == number })
}

// shadow gives what stands in the place of an account's password.
func (a *Accounts) shadow(name string) (password string, there bool, err error) {
	text, err := readTable(a.path("/etc/shadow"))
	if err != nil {
		return "", false, err
	}
	for fields := range rows(text, 9) {
		if fields[0] == name {
			return fields[1], true, nil
		}
	}
	return "", false, nil
}
