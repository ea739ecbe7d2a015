package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"muster/agent/wire"
)

// Flags is the set of flags of one command. A flag on the command line wins over its variable, and the variable over the default.
type Flags struct {
	*flag.FlagSet
	Program
	about, examples string
	fromLine        map[string]bool // the flags that the command line has
}

// Flags is an empty set for a command. Its help shows about and examples.
func (p Program) Flags(name, about, examples string) *Flags {
	f := &Flags{flag.NewFlagSet(name, flag.ContinueOnError), p, about, examples, map[string]bool{}}
	f.SetOutput(io.Discard) // package flag would print its own errors and usage
	f.Usage = func() {}
	return f
}

// duration is a time as a flag. Package flag says no more of a wrong one than "parse error".
type duration time.Duration

func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("write a number with its unit, such as 30s or 5m")
	}
	*d = duration(parsed)
	return nil
}

// DurationVar is flag's, with an error that says how a time is written.
func (f *Flags) DurationVar(to *time.Duration, name string, usual time.Duration, usage string) {
	*to = usual
	f.Var((*duration)(to), name, usage)
}

// Parse reads the arguments, which may only be flags. For the flags that are not given it reads their variables. It never repeats an
// argument that is not a flag, because that may be a token.
func (f *Flags) Parse(args []string) error {
	for len(args) > 0 {
		err := f.FlagSet.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			f.help()
			return err
		}
		if err != nil {
			return UsageError{err.Error()}
		}
		args = f.Args()
		if len(args) > 0 {
			return Usagef("%s takes flags only: a token goes into MUSTER_TOKEN, and a flag's value after the flag", f.Name())
		}
	}
	return f.environment()
}

// environment sets the flags that the command line did not set. Flags of one letter have no variable.
func (f *Flags) environment() error {
	f.Visit(func(one *flag.Flag) { f.fromLine[one.Name] = true })
	var failed error
	f.VisitAll(func(one *flag.Flag) {
		text := f.Getenv(wire.EnvOf(one.Name))
		if f.fromLine[one.Name] || text == "" || len(one.Name) == 1 {
			return
		}
		if err := f.Set(one.Name, text); err != nil {
			failed = Usagef("%s: %v", wire.EnvOf(one.Name), err)
		}
	})
	return failed
}

// Given reports whether the command line has the flag.
func (f *Flags) Given(name string) bool { return f.fromLine[name] }

func (f *Flags) help() {
	const usageMargin = 25
	fmt.Fprintf(f.Stdout, "%s\n\nUsage: muster-agent %s [FLAGS]\n\n", strings.Join(Fold(f.about, columns), "\n"), f.Name())
	f.VisitAll(func(one *flag.Flag) {
		value, text := flag.UnquoteUsage(one)
		dashes := "--"
		if len(one.Name) == 1 {
			dashes = "-"
		}
		left := "  " + strings.TrimSpace(dashes+one.Name+" "+value)
		if one.DefValue != "" && one.DefValue != "false" && one.DefValue != "0s" {
			text += " (default " + one.DefValue + ")"
		}
		if len(left) > usageMargin-2 {
			fmt.Fprintln(f.Stdout, left)
			left = ""
		}
		for _, line := range Fold(text, columns-usageMargin) {
			fmt.Fprintf(f.Stdout, "%-*s%s\n", usageMargin, left, line)
			left = ""
		}
	})
	fmt.Fprintf(f.Stdout, "\nExamples:\n%s", f.examples)
}
