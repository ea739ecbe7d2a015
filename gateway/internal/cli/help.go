package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"muster/agent/flags"
	"muster/agent/wire"
	pages "muster/gateway/internal/cli/help"
	"muster/gateway/internal/cli/screen"
)

const overviewTop = `muster turns GPU machines anywhere into nodes of one fleet.

A gateway on this machine is reached through its socket in --data DIR, one
elsewhere with --url and an API token in MUSTER_API_TOKEN.

Begin:
  muster serve                            run a gateway
  muster token create --tenant platform   the command that joins a machine
  muster node ls                          see the machines

Read:
  muster help                             the pages that there are: joining, ...
  muster help TOPIC                       one of them

Commands:
`

// What help is shown in, in columns: where the output is no terminal, and at most.
const (
	HelpColumns = 80
	widestHelp  = 100
)

// helpColumns is how wide help is shown.
func (s *Session) helpColumns() int {
	if columns := s.Screen(); columns > 0 {
		return min(columns, widestHelp)
	}
	return HelpColumns
}

// topic does `muster help WORD...`: a page, or else the help of a command; without a word it lists the pages.
func (s *Session) topic(words []string) error {
	if len(words) == 0 {
		var text bytes.Buffer
		topicList(&text, s.helpColumns())
		_, err := s.Stdout.Write(text.Bytes())
		return err
	}
	if page := pages.Text(words[0]); page != "" && len(words) == 1 {
		if s.commands.begins(words[0]) {
			page += "\n`muster " + words[0] + " --help` explains the command of that name.\n"
		}
		_, err := io.WriteString(s.Stdout, s.render(page))
		return err
	}
	if words[0] == serveName && len(words) == 1 {
		return s.help(nil, words, true)
	}
	cmd, rest, err := s.commands.find(words)
	if err != nil {
		return s.commands.noTopic(words[0])
	}
	return s.help(cmd, rest, true)
}

// render lays a page out for the terminal, or plainly if there is none.
func (s *Session) render(page string) string {
	return pages.Render(page, s.helpColumns(), s.Screen() > 0 && s.Getenv("TERM") != "dumb")
}

func topicList(w io.Writer, columns int) {
	fmt.Fprint(w, "`muster help TOPIC` shows one of these pages.\n")
	heads := map[pages.Kind]string{pages.Guide: "One task each:", pages.Subject: "One part of muster each:", pages.Runbook: "When something is wrong:"}
	for _, kind := range []pages.Kind{pages.Guide, pages.Subject, pages.Runbook} {
		fmt.Fprintf(w, "\n%s\n\n", heads[kind])
		var rows [][]string
		for _, t := range pages.Topics() {
			if t.Kind == kind {
				rows = append(rows, []string{"  " + t.Name, t.Summary})
			}
		}
		screen.Pairs(w, columns, rows)
	}
	fmt.Fprint(w, "\n"+screen.Wrap("`muster --help` lists the commands, `muster COMMAND --help` explains one, with examples.", columns)+"\n")
}

// noTopic says which pages there are, and the nearest.
func (all catalog) noTopic(typed string) error {
	first, _ := all.tree()
	hint := "the topics are " + strings.Join(pages.Names(), ", ")
	if close := nearest(typed, slices.Concat(pages.Names(), first)); close != "" {
		hint = "did you mean muster help " + close + "? " + strings.ToUpper(hint[:1]) + hint[1:]
	}
	return Usagef(hint, "there is no topic and no command %q", typed)
}

// help prints the help of a command, of a group or the overview. If nobody asked, the command line was incomplete, and
// it goes with exit code 2 to the error stream.
func (s *Session) help(cmd *Command, words []string, asked bool) error {
	serve := len(words) == 1 && words[0] == serveName
	var text bytes.Buffer
	switch {
	case cmd != nil:
		commandHelp(&text, cmd, s.helpColumns())
	case serve:
		fmt.Fprintln(&text, "muster serve --help shows the gateway's own flags.")
	case len(words) > 0:
		s.commands.groupHelp(&text, strings.Join(words, " "), s.helpColumns())
	default:
		s.commands.overview(&text, s.helpColumns())
	}
	to := s.Stdout
	if !asked {
		to = s.Stderr
	}
	if _, err := to.Write(text.Bytes()); err != nil || asked {
		return err
	}
	return Usagef("choose one of the above; --help after any command explains it", "the command is not complete")
}

func (all catalog) overview(w io.Writer, columns int) {
	io.WriteString(w, overviewTop)
	rows := [][]string{{"  serve", "run the gateway"}}
	for _, c := range all {
		rows = append(rows, []string{"  " + c.Name, c.Summary})
	}
	screen.Pairs(w, columns, rows)
	fmt.Fprint(w, "\nFlags of every command:\n")
	flagHelp(w, globals(), columns)
	fmt.Fprint(w, "\n"+screen.Wrap("Flags may stand before or after arguments. Exit code 0: done, 1: failed, 2: used wrongly. "+
		"`muster COMMAND --help` explains a command, with examples.", columns)+"\n")
}

func (all catalog) groupHelp(w io.Writer, group string, columns int) {
	fmt.Fprintf(w, "Commands of muster %s:\n", group)
	var rows [][]string
	for _, c := range all {
		if strings.HasPrefix(c.Name, group+" ") {
			rows = append(rows, []string{"  " + c.Name, c.Summary})
		}
	}
	screen.Pairs(w, columns, rows)
}

func commandHelp(w io.Writer, c *Command, columns int) {
	about := strings.ToUpper(c.Summary[:1]) + c.Summary[1:] + ".\n\n" + c.Text
	fmt.Fprintf(w, "%s\n\n%s\n", screen.Wrap("Usage: "+c.usage(), columns), screen.Wrap(about, columns))
	if len(c.Flags) > 0 {
		fmt.Fprint(w, "\nFlags:\n")
		var own []flags.Flag
		for _, o := range ownFlags() {
			if text := c.Says[o.Name]; text != "" {
				o.Usage = text
			}
			if slices.Contains(c.Flags, o.Name) {
				own = append(own, o)
			}
		}
		flagHelp(w, own, columns)
	}
	fmt.Fprint(w, "\nFlags of every command:\n")
	flagHelp(w, globals(), columns)
	fmt.Fprint(w, "\nExamples:\n")
	for _, e := range c.Examples {
		fmt.Fprintln(w, folded(e, columns))
	}
}

// folded breaks a long example in front of its flags, as a shell takes it.
func folded(example string, columns int) string {
	lines := []string{"  "}
	for i, part := range strings.SplitAfter(strings.ReplaceAll(example, " --", " \x00--"), "\x00") {
		part = strings.TrimSuffix(part, "\x00")
		last := len(lines) - 1
		if i > 0 && screen.Width(lines[last]+part+"\\") > columns {
			lines[last] += "\\"
			lines = append(lines, "     ")
			last++
		}
		lines[last] += part
	}
	return strings.Join(lines, "\n")
}

func flagHelp(w io.Writer, flags []flags.Flag, columns int) {
	rows := make([][]string, 0, len(flags))
	for _, o := range flags {
		flag := "      --" + o.Name
		if o.Short != "" {
			flag = "  -" + o.Short + ", --" + o.Name
		}
		if o.Value != "" {
			flag += " " + o.Value
		}
		usage := o.Usage
		if !o.NoEnv {
			usage += " [" + wire.EnvOf(o.Name) + "]"
		}
		rows = append(rows, []string{flag, usage})
	}
	screen.Pairs(w, columns, rows)
}

func topicNames() []string { return pages.Names() }
