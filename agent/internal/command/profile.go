package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/agent/disk"
	"muster/agent/flags"
	"muster/agent/wire"
)

const profileExamples = `  muster-agent profile apply gpuaas-profile-baremetal
  muster-agent profile apply gpuaas-profile-slice-vm --dry-run
  muster-agent profile show

For cloud-init, before it changes anything for a profile. apply notes the
profile in /etc/muster/profile. Where another one is noted, it changes nothing
and fails, because a machine that was set up for one is not fit for the other.
To move it, install its system anew. show prints what is noted, or none.
`

// profileFile is where the profile that a machine was set up for is noted, in the owner's folder.
const profileFile = "profile"

// Profile runs the command profile.
func Profile(_ context.Context, p Program, args []string) error {
	var words, rest []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			rest = append(rest, arg)
		} else {
			words = append(words, arg)
		}
	}
	var o struct{ DryRun bool }
	err := p.Flags("profile apply NAME|show", "Notes which profile this machine is set up for, and refuses a second one.", profileExamples,
		flags.Flag{Name: "dry-run", Off: true, Usage: "say what apply would do, and change nothing"}).Parse(rest, &o)
	switch {
	case err != nil:
		return err
	case len(words) == 1 && words[0] == "show":
		return p.showProfile()
	case len(words) != 2 || words[0] != "apply":
		return Usagef("profile takes apply NAME, or show")
	case wire.CheckName(words[1]) != nil:
		return Usagef("%.80q is not the name of a profile: it has 1 to %d letters, digits, dots, dashes and underscores", words[1],
			wire.MaxNameLength)
	}
	return p.applyProfile(words[1], o.DryRun)
}

func (p Program) profilePath() string { return filepath.Join(p.System.OwnerFolder(), profileFile) }

// profile is the one that is noted; empty: none is.
func (p Program) profile() (string, error) {
	raw, err := disk.ReadFile(p.profilePath(), 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	name := strings.TrimSpace(string(raw))
	if err == nil && wire.CheckName(name) != nil {
		err = fmt.Errorf("%s names no profile: see who wrote it, and remove it or write the name into it", p.profilePath())
	}
	return name, err
}

func (p Program) showProfile() error {
	name, err := p.profile()
	if name == "" {
		name = "none"
	}
	if err == nil {
		fmt.Fprintln(p.Stdout, name)
	}
	return err
}

func (p Program) applyProfile(name string, dry bool) error {
	before, err := p.profile()
	switch {
	case err != nil:
		return err
	case before == name:
		fmt.Fprintf(p.Stdout, "this machine is noted for %s already: nothing was changed\n", name)
		return nil
	case before != "":
		return fmt.Errorf("this machine was set up for %s, and is not fit for %s: install its system anew, or undo all that the other one "+
			"changed and then remove %s", before, name, p.profilePath())
	case dry:
		fmt.Fprintf(p.Stdout, "would note %s in %s\n", name, p.profilePath())
		return nil
	}
	err = os.MkdirAll(p.System.OwnerFolder(), 0o755)
	if err == nil {
		err = disk.Steps(nil).Create(p.profilePath(), 0o644, []byte(name+"\n"))
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: run this as root", err)
	case err != nil: // also where somebody else has just noted one: the next try says which
		return err
	}
	fmt.Fprintf(p.Stdout, "noted %s in %s\n", name, p.profilePath())
	return nil
}
