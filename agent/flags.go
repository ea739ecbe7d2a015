package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// flags is one command's set: a flag on the command line wins over its MUSTER_ variable, and that over the default.
type flags struct {
	*flag.FlagSet
	program
	about, examples string
	fromLine        map[string]bool // what the command line had
}

func (p program) flags(name, about, examples string) *flags {
	f := &flags{flag.NewFlagSet(name, flag.ContinueOnError), p, about, examples, map[string]bool{}}
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// parse reads the arguments, with flags before and after others, of which there may be none.
func (f *flags) parse(args []string) error {
	for len(args) > 0 {
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			f.help()
			return err
		}
		if err != nil {
			return usageError{err.Error()}
		}
		if args = f.Args(); len(args) > 0 {
			return usagef("%s takes flags only: a token goes into MUSTER_TOKEN, and a flag's value after the flag", f.Name())
		}
	}
	return f.environment()
}

// environment sets what the command line did not.
func (f *flags) environment() error {
	f.Visit(func(one *flag.Flag) { f.fromLine[one.Name] = true })
	var failed error
	f.VisitAll(func(one *flag.Flag) {
		text := f.getenv(variable(one.Name))
		if f.fromLine[one.Name] || text == "" || len(one.Name) == 1 {
			return
		}
		if err := f.Set(one.Name, text); err != nil {
			failed = usagef("%s: %v", variable(one.Name), err)
		}
	})
	return failed
}

// given reports whether the command line has the flag.
func (f *flags) given(name string) bool { return f.fromLine[name] }

func variable(name string) string {
	return "MUSTER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func (f *flags) help() {
	fmt.Fprintf(f.stdout, "%s\n\nUsage: muster-agent %s [FLAGS]\n\n", f.about, f.Name())
	f.VisitAll(func(one *flag.Flag) {
		value, text := flag.UnquoteUsage(one)
		dashes := "--"
		if len(one.Name) == 1 {
			dashes = "-"
		}
		left := strings.TrimSpace(dashes + one.Name + " " + value)
		if one.DefValue != "" && one.DefValue != "false" && one.DefValue != "0s" {
			text += " (default " + one.DefValue + ")"
		}
		fmt.Fprintf(f.stdout, "  %-22s %s\n", left, text)
	})
	fmt.Fprintf(f.stdout, "\nExamples:\n%s", f.examples)
}

// labels collects --label k=v, which may be repeated; in MUSTER_LABEL they are separated by commas.
type labels map[string]string

// String is the form that Set reads.
func (l labels) String() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, key+"="+l[key])
	}
	return strings.Join(parts, ",")
}

// Set adds what one flag says.
func (l labels) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return errors.New("a label is KEY=VALUE, such as tier=sovereign")
		}
		l[key] = strings.TrimSpace(value)
	}
	return nil
}
