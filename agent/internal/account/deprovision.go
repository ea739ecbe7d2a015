package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"muster/agent/wire"
)

// Deprovisioned is what Deprovision has done.
type Deprovisioned struct {
	Removed []string // accounts
	Kept    []string // home directories that are still there
	Changed bool
}

// Deprovision removes an account that muster made, or all of them. It is no error if an account is not there. If it cannot remove one of
// several, it goes on, and the error names all that it could not remove.
func (a *Accounts) Deprovision(ctx context.Context, params *wire.DeprovisionUser, out io.Writer) (done Deprovisioned, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, err := a.load()
	if err != nil {
		return done, err
	}
	return a.deprovision(ctx, r, params, out)
}

// EndAllocation removes an account with its home directory if it was made for this allocation. Any other account of that name stays,
// and is no error.
func (a *Accounts) EndAllocation(ctx context.Context, name, allocation string, out io.Writer) (done Deprovisioned, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, err := a.load()
	if err != nil {
		return done, err
	}
	if mine, recorded := r.find(name); !recorded || mine.Allocation != allocation {
		fmt.Fprintf(out, "there is no account %s of this allocation\n", name)
		return done, nil
	}
	return a.deprovision(ctx, r, &wire.DeprovisionUser{Username: name, RemoveHome: true}, out)
}

func (a *Accounts) deprovision(ctx context.Context, r record, params *wire.DeprovisionUser, out io.Writer) (done Deprovisioned, err error) {
	d := deprovisioning{Accounts: a, params: params, out: out, record: r}
	names := d.names()
	if params.All && len(names) == 0 {
		fmt.Fprintln(out, "muster has made no account on this machine")
		return done, nil
	}
	if err := a.need("usermod", "userdel"); err != nil {
		return done, err
	}
	var failed []error
	for _, name := range names {
		if err := d.remove(ctx, name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return d.done, errors.Join(failed...)
}

// deprovisioning is one run of Deprovision.
type deprovisioning struct {
	*Accounts
	params *wire.DeprovisionUser
	out    io.Writer
	record record
	done   Deprovisioned
}

// names are the accounts that are to go. A home directory that was kept counts where homes are to go.
func (d *deprovisioning) names() []string {
	if !d.params.All {
		return []string{d.params.Username}
	}
	var names []string
	for _, one := range d.record.Accounts {
		if one.Phase != kept || d.params.RemoveHome {
			names = append(names, one.Name)
		}
	}
	return names
}

// remove removes one account. Its rights as root go first, whatever else cannot be done.
func (d *deprovisioning) remove(ctx context.Context, name string) error {
	mine, recorded := d.record.find(name)
	if recorded {
		removed, err := d.removeSudoers(name)
		d.done.Changed = d.done.Changed || removed
		if err != nil {
			return err
		}
	}
	t, err := d.tables()
	if err != nil {
		return err
	}
	if _, err := d.ours(ctx, d.record, t, name); err != nil {
		return err
	}
	if !recorded {
		fmt.Fprintf(d.out, "%s is not there\n", name)
		return nil
	}
	if mine.Phase != kept {
		if err := d.removeAccount(ctx, t, mine); err != nil {
			return err
		}
	}
	return d.settleHome(mine)
}

// removeAccount ends what the user does, and removes the account.
func (d *deprovisioning) removeAccount(ctx context.Context, t tables, mine account) error {
	mine.Phase = removing
	if err := d.save(&d.record, mine); err != nil {
		return err
	}
	if _, exists := t.user(mine.Name); !exists {
		return nil
	}
	if err := d.dismantle(ctx, mine, d.out); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "removed the account %s\n", mine.Name)
	d.done.Removed = append(d.done.Removed, mine.Name)
	d.done.Changed = true
	return nil
}

// dismantle removes an account from the machine, and leaves the home directory alone. It closes the account first, so that nobody logs
// in while the processes are being ended.
func (a *Accounts) dismantle(ctx context.Context, mine account, out io.Writer) error {
	_, shadowed, err := a.shadow(mine.Name)
	if err == nil && shadowed { // an account that useradd did not complete may lack the line, and then nobody can log in
		err = a.run(ctx, out, "usermod", "--lock", "--expiredate", "1", mine.Name)
	}
	if err != nil {
		return err
	}
	a.forgetJobs(ctx, mine.Name)
	ended, err := a.endProcesses(ctx, mine.UID)
	if err != nil {
		return err
	}
	if ended > 0 {
		fmt.Fprintf(out, "ended %d processes of %s\n", ended, mine.Name)
	}
	return a.run(ctx, out, "userdel", mine.Name)
}

// forgetJobs removes what would start programs of the user again: timetables, and a lingering systemd. Neither needs to be there.
func (a *Accounts) forgetJobs(ctx context.Context, name string) {
	for _, command := range [][]string{{"crontab", "-r", "-u", name}, {"loginctl", "disable-linger", name}} {
		if a.tool(command[0]) != "" {
			_ = a.run(ctx, io.Discard, command[0], command[1:]...)
		}
	}
}

// settleHome removes the home directory where that was asked for. One that stays is remembered with its UID.
func (d *deprovisioning) settleHome(mine account) error {
	if d.params.RemoveHome {
		removed, err := d.removeHome(mine)
		if removed {
			fmt.Fprintf(d.out, "removed %s\n", mine.Home)
			d.done.Changed = true
		}
		if err != nil {
			return err
		}
		return d.forget(&d.record, mine.Name)
	}
	if _, err := os.Lstat(d.path(mine.Home)); errors.Is(err, fs.ErrNotExist) {
		return d.forget(&d.record, mine.Name)
	}
	d.done.Kept = append(d.done.Kept, mine.Home)
	if mine.Phase == kept {
		fmt.Fprintf(d.out, "%s is not there, and %s is\n", mine.Name, mine.Home)
		return nil
	}
	mine.Phase = kept
	mine.Groups = nil
	fmt.Fprintf(d.out, "%s stays, and its UID %d is kept for it\n", mine.Home, mine.UID)
	return d.save(&d.record, mine)
}
