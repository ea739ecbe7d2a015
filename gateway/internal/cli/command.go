package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"muster/gateway/internal/paste"
)

// Command is one thing that muster does.
type Command struct {
	Name       string // "node ls"
	For        string // the name of the command that this is a second path to; empty: it is one itself
	First      bool   // help shows it before all others
	Args       string // as help shows them: "NAME..."
	Least      int    // arguments
	Most       int    // arguments; -1: any number
	Flags      []string
	Forms      []string          // of --output, the usual one first; nil: table, wide and json
	Says       map[string]string // what a flag means here, where its usual words do not fit
	Program    bool              // words behind -- are a program with its arguments, which the command reads by Session.Behind
	ServeFlags bool              // what stands behind the name are flags of muster serve; the command reads them by Env.Serve
	NoGateway  bool              // it reaches no gateway, so that the flags which lead to one mean nothing to it
	Summary    string
	Text       string // what help teaches, in paragraphs
	Examples   []string
	Run        func(context.Context, *Session) error
}

// With runs a command with the values of its flags in a struct.
func With[T any](run func(context.Context, *Session, T) error) func(context.Context, *Session) error {
	return func(ctx context.Context, s *Session) error {
		var fields T
		if err := s.Flags.Into(&fields); err != nil {
			return err
		}
		return run(ctx, s, fields)
	}
}

// Texts that several commands need in their help.
const (
	AskText = "With a selector it shows the matching nodes and asks first; --yes skips the question. " +
		"Without a terminal, more than one node needs --yes. -l status=online selects every node that is online, -l state!=retired every " +
		"node there is."
	OfflineText = "The gateway has to be stopped (systemctl stop muster)."
)

// catalog is the whole command line, in the order in which help shows it.
type catalog []Command

const (
	serveName = "serve" // this package lists the command; the gateway itself runs it
	helpName  = "help"
)

// firstWord is the word that says what to do, with flags before it skipped, and the arguments without it.
func firstWord(args []string) (word string, rest []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return "", args
		}
		if len(args[i]) < 2 || args[i][0] != '-' {
			return args[i], slices.Concat(args[:i], args[i+1:])
		}
		flag, _, inline := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if o, known := lookup(flag); known && o.Value != "" && !inline {
			i++
		}
	}
	return "", args
}

// divide separates the words that this package reads from flags of muster serve, which it does not know.
func (all catalog) divide(args []string) (known, ofServe []string) {
	first, rest := firstWord(args)
	second, rest := firstWord(rest)
	if !slices.ContainsFunc(all, func(c Command) bool { return c.ServeFlags && c.Name == first+" "+second }) {
		return args, nil
	}
	known = []string{first, second}
	for _, help := range []string{"--help", "-help", "-h"} {
		if slices.Contains(rest, help) {
			return append(known, help), nil
		}
	}
	return known, rest
}

// find gives the command that the first words name, and the words after it. Of two names the longer one counts, also that of a group: "logs
// ship" is not "logs" with an argument. known is true without a command where the words name only a group, or nothing.
func (all catalog) find(words []string) (found *Command, rest []string, known bool) {
	if len(words) == 0 || words[0] == helpName {
		return nil, words[min(1, len(words)):], true
	}
	longest := 0
	for i := range all {
		parts := strings.Fields(all[i].Name)
		if len(parts) > longest && len(words) >= len(parts) && slices.Equal(words[:len(parts)], parts) {
			found = &all[i]
			longest = len(parts)
		}
	}
	if len(words) > longest && all.isGroup(words) {
		return nil, words, true
	}
	return found, words[longest:], found != nil
}

// isGroup is true if these words begin the names of commands, and there is more to each name.
func (all catalog) isGroup(words []string) bool {
	group := strings.Join(words, " ") + " "
	return slices.ContainsFunc(all, func(c Command) bool { return strings.HasPrefix(c.Name, group) })
}

// next gives the words that may follow the words before: those behind "" begin a command line.
func (all catalog) next() map[string][]string {
	next := map[string][]string{"": {serveName, helpName}, completionName: shells(), helpName: helpWords()}
	for _, c := range all {
		before := ""
		for _, word := range strings.Fields(c.Name) {
			if !slices.Contains(next[before], word) {
				next[before] = append(next[before], word)
			}
			before = strings.TrimSpace(before + " " + word)
		}
	}
	return next
}

// noGateway tells whether a word begins a command that reaches no gateway.
func (all catalog) noGateway(word string) bool {
	return word == serveName || word == helpName || slices.ContainsFunc(all, func(c Command) bool {
		first, _, _ := strings.Cut(c.Name, " ")
		return c.NoGateway && first == word
	})
}

// begins tells whether a word begins a command.
func (all catalog) begins(word string) bool {
	return slices.Contains(all.next()[""], word)
}

// check refuses flags that the command does not take, too few or too many arguments, and one that names nothing.
func (c *Command) check(given Flags, args []string) error {
	hint := "muster " + c.Name + " --help shows how it is used"
	for _, f := range ownFlags() {
		if given.Given(f.Name) && !slices.Contains(c.Flags, f.Name) {
			return Usagef(cmp.Or(c.flagMeant(f.Name), hint), "muster %s takes no --%s", c.Name, f.Name)
		}
	}
	if c.Most >= 0 && len(args) > c.Most {
		return c.tooMany(args, hint)
	}
	if len(args) < c.Least {
		return Usagef("write "+c.usage(), "muster %s needs %s", c.Name, c.Args)
	}
	if at := slices.IndexFunc(args, func(word string) bool { return strings.TrimSpace(word) == "" }); at >= 0 {
		return Usagef("a variable of a script may be empty: write "+c.usage(), "argument %d of muster %s is empty", at+1, c.Name)
	}
	return nil
}

// tooMany refuses an argument too many, and names the flag that takes it, if there is one.
func (c *Command) tooMany(args []string, hint string) error {
	line := strings.TrimSpace("muster " + c.Name + " " + paste.Line(args[:c.Most]...))
	_, err := strconv.ParseFloat(args[c.Most], 64)
	switch {
	case slices.Contains(c.Flags, "file"): // it may be a secret, and is not shown again
		return Usagef("--file FILE or a pipe gives it: secrets do not stand in arguments, which every user of the machine can read",
			"muster %s does not take that many words", c.Name)
	case c.Most == 0 && slices.Contains([]string{"ls", "list", "show"}, args[0]):
		hint = "write " + line + " alone"
	case c.Most == 0 && slices.Contains(c.Flags, "node"):
		hint = "write muster " + c.Name + " --node " + shown(args[0])
	case err == nil && slices.Contains(c.Flags, "limit"):
		hint = "write " + line + " --limit " + args[c.Most]
	}
	return Usagef(hint, "muster %s does not take %q", c.Name, args[c.Most])
}

func (c *Command) usage() string {
	args := []string{"muster " + c.Name}
	if c.Args != "" {
		args = append(args, strings.Fields(c.Args)...)
	}
	if len(c.Flags) > 0 {
		at := len(args)
		if i := slices.IndexFunc(args, func(word string) bool { return strings.HasSuffix(word, "--") }); i >= 0 {
			at = i // what stands behind it are words of a program
		}
		args = slices.Insert(args, at, "[flags]")
	}
	return strings.Join(args, " ")
}
