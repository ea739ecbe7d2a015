package command

import (
	"fmt"
	"slices"
	"strings"

	"muster/agent/flags"
)

// Flags is the set of flags of one command, with its help.
type Flags struct {
	flags.Set
	Program
	Changed               map[string]string // by flag, after Parse: the values that are not the usual ones
	name, about, examples string
}

// Flags returns the set for a command. Its help shows about and examples.
func (p Program) Flags(name, about, examples string, all ...flags.Flag) *Flags {
	return &Flags{Set: flags.Set{All: all}, Program: p, name: name, about: about, examples: examples}
}

// Parse reads the arguments, which may only be flags, into structs whose fields have the usual values. It never repeats an argument that is
// not a flag, because that may be a token.
func (f *Flags) Parse(args []string, into ...any) error {
	f.Set.Getenv = f.Program.Getenv
	usual := f.Texts(into...)
	words, behind, err := f.Set.Parse(args)
	switch {
	case err == flags.ErrHelp:
		f.help(usual)
		return err
	case err != nil:
		return err
	case len(words)+len(behind) > 0:
		return Usagef("%s takes flags only: a token goes into MUSTER_TOKEN, and a flag's value after the flag", f.name)
	}
	if err := f.Into(into...); err != nil {
		return err
	}
	f.Changed = f.Texts(into...)
	for name, text := range usual {
		if f.Changed[name] == text {
			delete(f.Changed, name)
		}
	}
	return nil
}

func (f *Flags) help(usual map[string]string) {
	const usageMargin = 25
	fmt.Fprintf(f.Stdout, "%s\n\nUsage: muster-agent %s [FLAGS]\n\n", strings.Join(Fold(f.about, columns), "\n"), f.name)
	var names []string
	for _, one := range f.All {
		names = append(names, one.Name)
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		one, _ := f.Lookup(name)
		dashes := "--"
		if len(one.Name) == 1 {
			dashes = "-"
		}
		left := "  " + strings.TrimSpace(dashes+one.Name+" "+one.Value)
		text := one.Usage
		if is := usual[one.Name]; is != "" && is != "false" && is != "0s" {
			text += " (default " + is + ")"
		}
		if len(left) > usageMargin-2 {
			fmt.Fprintln(f.Stdout, left)
			left = ""
		}
		for _, line := range Fold(text, columns-usageMargin) {
			fmt.Fprintf(f.Stdout, "%-*s%s\n", usageMargin, left, line)
			left = ""
		}
	}
	fmt.Fprintf(f.Stdout, "\nExamples:\n%s", f.examples)
}

// outputFlag is -o.
func outputFlag(usage string) flags.Flag {
	return flags.Flag{Name: "o", Value: "FORMAT", Usage: usage, NoEnv: true}
}

// stateFlag is --state, of which more may be said.
func stateFlag(more string) flags.Flag {
	return flags.Flag{Name: "state", Value: "DIR", Usage: "state DIR" + more}
}
