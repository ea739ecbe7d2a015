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

// Words of muster help that lead to a list.
const (
	helpCommands = "commands"
	helpPages    = "pages"
)

// helpWords are the words that completion knows behind muster help.
func helpWords() []string { return append([]string{helpCommands, helpPages}, pages.Names()...) }

// topic does `muster help WORD...`: a list, a page, the help of a command, or the place where a word leads to; without a word it is the
// overview.
func (s *Session) topic(words []string) error {
	if len(words) == 0 {
		return s.help(nil, nil, true)
	}
	cmd, rest, known := s.commands.find(words)
	word := strings.Join(words, " ")
	place, leads := pages.Find(word)
	switch {
	case len(words) == 1 && words[0] == helpCommands:
		return s.write(s.commands.list)
	case len(words) == 1 && words[0] == helpPages:
		return s.write(pageList)
	case leads && (word == place.Page || !known || cmd != nil && cmd.For != ""):
		_, err := io.WriteString(s.Stdout, s.render(s.page(word, place)))
		return err
	case known:
		return s.help(cmd, rest, true)
	case len(words) == 1 && words[0] == serveName:
		return s.help(nil, words, true)
	}
	return s.commands.noTopic(words)
}

// page is the Markdown of a place, and what else there is to read about the word that led there.
func (s *Session) page(word string, place pages.Place) string {
	text := place.Text()
	if place.Section != "" {
		text += "\n`muster help " + place.Page + "` is the whole page.\n"
	}
	if s.commands.begins(word) {
		text += "\n`muster " + word + " --help` explains the command of that name.\n"
	}
	return text
}

// write prints what a function lays out for the screen.
func (s *Session) write(lay func(w io.Writer, columns int)) error {
	var text bytes.Buffer
	lay(&text, s.helpColumns())
	_, err := s.Stdout.Write(text.Bytes())
	return err
}

// render lays a page out for the terminal, or plainly if there is none.
func (s *Session) render(page string) string {
	return pages.Render(page, s.helpColumns(), s.Screen() > 0 && s.Getenv("TERM") != "dumb")
}

func pageList(w io.Writer, columns int) {
	fmt.Fprint(w, "`muster help PAGE` shows one of these pages.\n")
	for _, list := range pages.Lists() {
		fmt.Fprintf(w, "\n%s:\n\n", list.Kind)
		var rows [][]string
		for _, t := range list.Topics {
			rows = append(rows, []string{"  " + t.Name, t.Summary})
		}
		screen.Pairs(w, columns, rows)
	}
	fmt.Fprint(w, "\n"+screen.Wrap("`muster help WORD` finds other words too, such as jupyter or price. `muster help commands` lists the "+
		"commands, `muster COMMAND --help` explains one, with examples.", columns)+"\n")
}

// noTopic says what was meant, or else which pages there are.
func (all catalog) noTopic(words []string) error {
	if err := all.otherWord(typed{words: words}); err != nil {
		return err
	}
	hint := "the pages are " + strings.Join(pages.Names(), ", ")
	if asked := didYouMean("muster help ", words, slices.Concat(pages.Names(), pages.Words(), all.next()[""])); asked != "" {
		hint = asked + " " + strings.ToUpper(hint[:1]) + hint[1:]
	}
	return Usagef(hint, "there is no page and no command %q", all.wrongName(typed{words: words}))
}

// help prints the help of a command, of a group or the overview. If nobody asked, the command line was incomplete, and
// it goes with exit code 2 to the error stream.
func (s *Session) help(cmd *Command, words []string, asked bool) error {
	var text bytes.Buffer
	switch {
	case cmd != nil:
		commandHelp(&text, cmd, s.commands.otherPaths(cmd), s.helpColumns())
	case len(words) == 1 && words[0] == serveName:
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

// overview is what a new hand needs, on one screen.
func (all catalog) overview(w io.Writer, columns int) {
	fmt.Fprint(w, "muster turns GPU machines anywhere into nodes of one fleet.\n\n")
	var rows [][]string
	last := ""
	for i := range all {
		c := &all[i]
		switch {
		case c.First && c.full() == last:
			rows[len(rows)-1][0] += ", " + c.Name
		case c.First:
			rows = append(rows, []string{"  muster " + c.Name, c.Summary})
		}
		last = c.full()
	}
	screen.Pairs(w, columns, append(rows, [][]string{
		{"", ""},
		{"  muster serve", "run the gateway"},
		{"  muster token create", "print the command that joins a machine"},
		{"", ""},
		{"  muster help " + helpCommands, "list all commands, and the flags of every one"},
		{"  muster help " + helpPages, "list the pages: joining, sessions, alerts, ..."},
		{"  muster help WORD", "read about quickstart, ssh, jupyter, nginx, price, ..."},
	}...))
	fmt.Fprint(w, "\n"+screen.Wrap("`muster COMMAND --help` explains a command, with examples. A gateway on another machine is reached with "+
		"--url and an API token in MUSTER_API_TOKEN.", columns)+"\n")
}

// list has all commands.
func (all catalog) list(w io.Writer, columns int) {
	fmt.Fprint(w, "Commands:\n")
	rows := [][]string{{"  serve", "run the gateway"}}
	for _, c := range all {
		summary := c.Summary
		if c.For != "" {
			summary += ": " + c.For
		}
		rows = append(rows, []string{"  " + c.Name, summary})
	}
	screen.Pairs(w, columns, rows)
	fmt.Fprint(w, "\nFlags of every command:\n")
	flagHelp(w, globals(), columns)
	fmt.Fprint(w, "\n"+screen.Wrap("A gateway on this machine is reached through its socket in --data DIR, one elsewhere with --url and an "+
		"API token in MUSTER_API_TOKEN.\n\nFlags may stand before or after arguments. Exit code 0: done, 1: failed, 2: used wrongly. "+
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

func commandHelp(w io.Writer, c *Command, same string, columns int) {
	about := strings.ToUpper(c.Summary[:1]) + c.Summary[1:] + ". " + same + "\n\n" + c.Text
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
