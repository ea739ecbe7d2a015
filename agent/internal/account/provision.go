package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// noPassword is what stands in /etc/shadow for an account without a password. It is not !, because sshd takes that for a locked
// account where it does not use PAM.
const noPassword = "*"

// Provisioned is what Provision has done.
type Provisioned struct {
	UID     int
	Home    string
	Changed bool
}

// provisioning is one run of Provision.
type provisioning struct {
	*Accounts
	params *wire.ProvisionUser
	out    io.Writer
	record record
	mine   account
	entry  entry
	tables tables
	done   Provisioned
}

// Provision makes an account, or brings an account that it made to what the params say. It changes only what differs. It refuses before it
// changes anything if something that it needs is missing. It writes what it does to out, line by line.
func (a *Accounts) Provision(ctx context.Context, params *wire.ProvisionUser, out io.Writer) (Provisioned, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := provisioning{Accounts: a, params: params, out: out}
	for _, step := range []func(context.Context) error{p.check, p.exist, p.setShell, p.setGroups, p.setKeys, p.setSudo} {
		if err := step(ctx); err != nil {
			return p.done, err
		}
	}
	p.done.UID = p.entry.uid
	p.done.Home = p.entry.home
	if !p.done.Changed {
		fmt.Fprintf(out, "%s is as asked already\n", params.Username)
	}
	return p.done, nil
}

// tell says that something was changed, and what.
func (p *provisioning) tell(format string, args ...any) {
	p.done.Changed = true
	fmt.Fprintf(p.out, format+"\n", args...)
}

// check refuses what cannot be done. It changes nothing.
func (p *provisioning) check(ctx context.Context) error {
	err := p.need("useradd", "usermod", "userdel")
	if err == nil {
		p.record, err = p.load()
	}
	if err == nil {
		p.tables, err = p.Accounts.tables()
	}
	if err == nil {
		p.mine, err = p.ours(ctx, p.record, p.tables, p.params.Username)
	}
	if err == nil {
		err = p.checkAllocation()
	}
	if err != nil {
		return err
	}
	if name := p.tables.missing(p.params.Groups); name != "" {
		return fmt.Errorf("this machine has no group %s: make it (groupadd %s), or leave it out", name, name)
	}
	if shell := p.params.Shell; shell != "" && !p.program(shell) {
		return fmt.Errorf("this machine has no program %s: install that shell, or name another one", shell)
	}
	if p.params.Sudo {
		return p.sudoable()
	}
	return nil
}

// checkAllocation refuses an account that was made for another allocation than this task is for, or for none: whoever has an allocation
// would get into it, and the end of the allocation would remove it. It does so too where only the home directory was kept.
func (p *provisioning) checkAllocation() error {
	if p.mine.Name == "" || p.mine.Allocation == p.params.Allocation {
		return nil
	}
	whose := "for no allocation"
	if p.mine.Allocation != "" {
		whose = "for the allocation " + p.mine.Allocation
	}
	return fmt.Errorf("muster made the account %s %s, and this task may not change it: use another name, or remove it with its home "+
		"directory (muster task run NODE deprovision_user remove_home=true username=%s)", p.mine.Name, whose, p.mine.Name)
}

// ours gives the record's entry for an account, the zero value if there is none and the name is free. It refuses a name that belongs
// to somebody else.
func (a *Accounts) ours(ctx context.Context, r record, t tables, name string) (account, error) {
	mine, recorded := r.find(name)
	there, exists := t.user(name)
	switch {
	case exists && (!recorded || mine.Phase == kept):
		return account{}, fmt.Errorf("this machine has an account %s that muster did not make and leaves alone: use another name", name)
	case exists && there.uid < leastUID:
		return account{}, fmt.Errorf("the account %s has the UID %d, which belongs to the system: use another name", name, there.uid)
	case exists && (there.uid != mine.UID || there.comment != mine.Mark):
		return account{}, fmt.Errorf("the account %s is not the one that muster made: muster's has the UID %d and the comment %q; "+
			"use another name, or remove the account on the machine (userdel %s)", name, mine.UID, mine.Mark, name)
	case exists:
		return mine, nil
	}
	elsewhere, err := a.known(ctx, name)
	if err == nil && elsewhere {
		err = fmt.Errorf("this machine knows a user %s from a directory such as LDAP: use another name", name)
	}
	return mine, err
}

// program tells whether a path is a program of this machine.
func (a *Accounts) program(path string) bool {
	info, err := os.Stat(a.path(path))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// exist makes the account where it is missing, or where a run that was cut off has left a part of it.
func (p *provisioning) exist(ctx context.Context) error {
	there, exists := p.tables.user(p.params.Username)
	p.entry = there
	if exists && p.mine.Phase == present {
		return p.keep()
	}
	if exists && p.mine.Phase == making {
		password, _, err := p.shadow(p.mine.Name)
		if err != nil {
			return err
		}
		if password == noPassword { // useradd came as far as that
			return p.finish()
		}
	}
	if exists { // the part of an account, or one whose removal was cut off
		if err := p.dismantle(ctx, p.mine, p.out); err != nil {
			return err
		}
		var err error
		p.tables, err = p.Accounts.tables()
		if err != nil {
			return err
		}
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	return p.make(ctx)
}

// keep looks after an account that is there.
func (p *provisioning) keep() error {
	if p.entry.home != p.mine.Home {
		return fmt.Errorf("the home directory of %s was moved from %s to %s: move it back (usermod --home), or choose another name",
			p.mine.Name, p.mine.Home, p.entry.home)
	}
	made, err := p.ensureHome(p.mine, p.entry.gid)
	if made {
		p.tell("made the home directory %s again", p.mine.Home)
	}
	return err
}

// begin chooses a UID and writes it down. An account whose home directory was kept gets the UID of before.
func (p *provisioning) begin(ctx context.Context) error {
	name := p.params.Username
	_, err := os.Lstat(p.path(home(name)))
	empty := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !empty:
		return err
	case p.mine.UID == 0 && !empty:
		return fmt.Errorf("%s is there already, and muster did not make it: move it away, or choose another name", home(name))
	}
	uid := p.mine.UID
	if uid == 0 || empty && p.tables.uses(uid) {
		uid, err = p.freeUID(ctx)
		if err != nil {
			return err
		}
	}
	p.mine = account{Name: name, UID: uid, Home: home(name), Mark: newMark(), Phase: making, Allocation: p.params.Allocation}
	return p.save(&p.record, p.mine)
}

// freeUID is the number after the highest in use. The numbers of accounts whose homes were kept are in use: whoever got one would own
// that home.
func (p *provisioning) freeUID(ctx context.Context) (int, error) {
	used := func(uid int) bool {
		return p.tables.uses(uid) || slices.ContainsFunc(p.record.Accounts, func(one account) bool { return one.UID == uid })
	}
	highest := leastUID - 1
	for uid := leastUID; uid <= mostUID; uid++ {
		if used(uid) {
			highest = uid
		}
	}
	for i := range mostUID - leastUID + 1 {
		uid := leastUID + (highest+1-leastUID+i)%(mostUID-leastUID+1)
		if used(uid) {
			continue
		}
		elsewhere, err := p.known(ctx, strconv.Itoa(uid))
		if err != nil || !elsewhere {
			return uid, err
		}
	}
	return 0, errors.New("this machine has no free UID for people")
}

// make runs useradd, and makes sure that it did what it was asked for.
func (p *provisioning) make(ctx context.Context) error {
	shell := p.params.Shell
	if shell == "" {
		shell = "/bin/sh"
		if p.program("/bin/bash") {
			shell = "/bin/bash"
		}
	}
	args := []string{
		"--uid", strconv.Itoa(p.mine.UID), "--user-group", "--create-home", "--home-dir", p.mine.Home, "--shell", shell,
		"--comment", p.mine.Mark, "--password", noPassword, p.mine.Name,
	}
	if err := p.run(ctx, p.out, "useradd", args...); err != nil {
		return fmt.Errorf("the account %s was not made: %w", p.mine.Name, err)
	}
	var err error
	p.tables, err = p.Accounts.tables()
	if err != nil {
		return err
	}
	there, exists := p.tables.user(p.mine.Name)
	if !exists || there.uid != p.mine.UID || there.comment != p.mine.Mark || there.home != p.mine.Home {
		return fmt.Errorf("useradd said that all is well, but /etc/passwd does not have the account %s as asked: see what it has", p.mine.Name)
	}
	p.entry = there
	return p.finish()
}

// finish makes sure that a new account has its home directory, and notes that the account is there.
func (p *provisioning) finish() error {
	if _, err := p.ensureHome(p.mine, p.entry.gid); err != nil {
		return err
	}
	if err := p.inHome(dropKeys); err != nil {
		return err
	}
	p.mine.Phase = present
	if err := p.save(&p.record, p.mine); err != nil {
		return err
	}
	p.tell("made the account %s with the UID %d and the home directory %s", p.mine.Name, p.mine.UID, p.mine.Home)
	return nil
}

// setShell changes the shell to one that was asked for. Without one the shell stays, because the user may have chosen it.
func (p *provisioning) setShell(ctx context.Context) error {
	shell := p.params.Shell
	if shell == "" || shell == p.entry.shell {
		return nil
	}
	if err := p.run(ctx, p.out, "usermod", "--shell", shell, p.mine.Name); err != nil {
		return err
	}
	p.tell("its shell is %s", shell)
	return nil
}

// setGroups joins the groups that were asked for. It leaves those that an earlier run has joined. It never leaves one that somebody
// else has put the account into.
func (p *provisioning) setGroups(ctx context.Context) error {
	now := p.tables.joined(p.mine.Name)
	var join, leave []string
	for _, name := range p.params.Groups {
		if !slices.Contains(now, name) && !slices.Contains(join, name) {
			join = append(join, name)
		}
	}
	for _, name := range p.mine.Groups {
		if slices.Contains(now, name) && !slices.Contains(p.params.Groups, name) {
			leave = append(leave, name)
		}
	}
	if len(join)+len(leave) == 0 {
		return nil
	}
	// The groups to join are in the record before they are joined: else a run that is cut off could not be taken back.
	groups := append(slices.Clone(p.mine.Groups), join...)
	slices.Sort(groups)
	p.mine.Groups = slices.Compact(groups)
	if err := p.save(&p.record, p.mine); err != nil {
		return err
	}
	next := slices.DeleteFunc(slices.Concat(now, join), func(name string) bool { return slices.Contains(leave, name) })
	if err := p.run(ctx, p.out, "usermod", "--groups", strings.Join(next, ","), p.mine.Name); err != nil {
		return err
	}
	p.mine.Groups = slices.DeleteFunc(p.mine.Groups, func(name string) bool { return !slices.Contains(p.params.Groups, name) })
	p.tell("its groups are now: %s", strings.Join(next, " "))
	return p.save(&p.record, p.mine)
}

// setKeys writes authorized_keys.
func (p *provisioning) setKeys(context.Context) error {
	var blobs []string
	for _, line := range p.params.Keys {
		blobs = append(blobs, keyBlob(line))
	}
	before := p.mine.Keys
	if len(blobs)+len(before) == 0 {
		return nil
	}
	// While the file is being changed, the record names the keys of before and those of now.
	p.mine.Keys = slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, blobs))))
	if !slices.Equal(before, p.mine.Keys) {
		if err := p.save(&p.record, p.mine); err != nil {
			return err
		}
	}
	changed := false
	err := p.inHome(func(home folder) (err error) {
		changed, err = p.writeKeys(home, p.mine.Keys, p.params.Keys)
		return err
	})
	if err != nil {
		return err
	}
	if changed {
		p.tell("%d of its keys are in authorized_keys", len(p.params.Keys))
	}
	p.mine.Keys = slices.Compact(slices.Sorted(slices.Values(blobs)))
	if slices.Equal(before, p.mine.Keys) {
		return nil
	}
	return p.save(&p.record, p.mine)
}

// inHome works in the account's home directory with the rights of its user.
func (p *provisioning) inHome(work func(folder) error) error {
	it, err := p.openHome(p.mine)
	if err != nil {
		return err
	}
	defer it.close()
	err = p.as(p.entry.uid, p.entry.gid, func() error { return work(it) })
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(p.mine.Home, keysFolder), err)
	}
	return nil
}
