package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"muster/agent/flags"
	"muster/agent/sign"
	pages "muster/gateway/internal/cli/help"
	"muster/gateway/internal/cli/meaning"
	"muster/gateway/internal/cli/spelling"
	"muster/gateway/internal/paste"
)

// mostAnswers is how many commands one answer names at most.
const mostAnswers = 3

// usualGroup is meant if a verb stands without a noun: "delete gpu-7".
const usualGroup = "node"

// typed is a command line that names no command, as it was typed.
type typed struct {
	words  []string
	flags  []givenFlag
	behind []string // the words behind --; nil: there was none
}

type givenFlag struct{ name, text string }

// readTyped reads a command line as far as that can be done: a flag that there is not is left out.
func readTyped(args []string) typed {
	var t typed
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			t.behind = args[i+1:]
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			t.words = append(t.words, arg)
			continue
		}
		name, _, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		f, known := lookup(name)
		text := shown(arg)
		if known && f.Value != "" && !inline && i+1 < len(args) {
			i++
			text += " " + shown(args[i])
		}
		if known {
			t.flags = append(t.flags, givenFlag{f.Name, text})
		}
	}
	return t
}

// shown is an argument as it can be pasted.
func shown(arg string) string { return paste.Quote(public(arg)) }

// public is an argument that may be shown again: of a token only the public part.
func public(arg string) string {
	if token, err := sign.ParseToken(arg); err == nil {
		return token.Public()
	}
	return arg
}

// answer is a command that was meant.
type answer struct {
	full    string // its own name
	line    string // as it can be given, without the program's name
	summary string
}

// unknown is the error of a command line that names no command. A word that has a meaning is answered with the command that has it. Letters
// are compared only where it has none.
func (all catalog) unknown(t typed) error {
	if err := all.otherWord(t); err != nil {
		return err
	}
	hint := "muster --help shows what people need most, muster help commands all there is"
	group := ""
	for n := range t.words {
		if words := t.words[:n+1]; all.isGroup(words) {
			group = strings.Join(words, " ")
			hint = "muster " + group + " --help shows its commands"
		}
	}
	var names []string
	for _, c := range all {
		if strings.HasPrefix(c.Name, group) {
			names = append(names, c.Name)
		}
	}
	asked := didYouMean("muster ", t.words, names)
	if asked == "" && group == "" {
		asked = didYouMean("muster ", t.words, all.next()[""])
	}
	if asked != "" {
		hint = asked
	}
	return Usagef(hint, "there is no command %q", all.wrongName(t))
}

// unread is the error of a command line whose flags cannot be read. An error without a hint gets the help that has the right flags.
func (all catalog) unread(t typed, err error) error {
	if err := all.otherWord(t); err != nil {
		return err
	}
	c, _, _ := all.find(t.words)
	if c != nil {
		err = cmp.Or(all.verbInstead(c, t), err)
	}
	var wrong *flags.Error
	if !errors.As(err, &wrong) || wrong.Hint != "" {
		return err
	}
	meant, hint := "", "muster "+helpName+" "+helpCommands+" shows what there is"
	taken := allFlags()
	if c != nil {
		meant = c.flagMeant(wrong.Unknown)
		hint = "muster " + c.Name + " --help shows its flags"
		taken = slices.DeleteFunc(ownFlags(), func(f flags.Flag) bool { return !slices.Contains(c.Flags, f.Name) })
		taken = append(taken, globals()...)
	}
	var names []string
	for _, f := range taken {
		names = append(names, f.Name)
	}
	return Usagef(cmp.Or(meant, didYouMean("--", []string{wrong.Unknown}, names), hint), "%s", wrong.Message)
}

// flagMeant says what the command takes in place of a flag that it does not take; empty: nothing is known.
func (c *Command) flagMeant(name string) string {
	for _, m := range meaning.OtherFlags() {
		if !m.Has(name) {
			continue
		}
		for _, text := range m.Means() {
			if text == meaning.EveryNode && strings.HasSuffix(c.full(), " ls") {
				continue // a list has all already
			}
			if text[0] != '-' {
				return "another command does that: muster " + text
			}
			word, _, _ := strings.Cut(strings.TrimLeft(text, "-"), " ")
			if f, known := lookup(word); known && slices.Contains(c.Flags, f.Name) {
				return "write muster " + c.Name + " " + text
			}
		}
	}
	if name != "" && strings.Contains(c.Args, strings.ToUpper(name)) {
		return "write " + c.usage()
	}
	return ""
}

// wrongName is what was typed in the place of a command: behind a group two words, else one. What follows may be no name at all.
func (all catalog) wrongName(t typed) string {
	n := 1
	for n < len(t.words) && all.isGroup(t.words[:n]) {
		n++
	}
	var words []string
	for _, word := range t.words[:n] {
		words = append(words, public(word))
	}
	return strings.Join(words, " ")
}

// otherWord answers words that mean a command with that command; nil: they name one, or mean none.
func (all catalog) otherWord(t typed) error {
	if _, _, known := all.find(t.words); known {
		return nil
	}
	answers := all.meant(t)
	if len(answers) == 0 {
		return nil
	}
	return Usagef(toCopy(answers), "there is no command %q", all.wrongName(t))
}

// toCopy is a hint with each command on a line of its own.
func toCopy(answers []answer) string {
	var hint strings.Builder
	for _, a := range answers {
		colon := ":"
		if strings.HasSuffix(a.summary, "?") {
			colon = ""
		}
		hint.WriteString(a.summary + colon + "\n  muster " + a.line + "\n")
	}
	return hint.String()
}

// verbInstead answers a command line without a program, whose first word behind a group's name is a verb of that group by another name:
// "run status". nil: it is none.
func (all catalog) verbInstead(c *Command, t typed) error {
	group := strings.Fields(c.Name)
	if !c.Program || t.behind != nil || !all.isGroup(group) || len(t.words) == len(group) {
		return nil
	}
	answers := slices.Concat(all.verb(c.Name, t.words[len(group):], t), all.phrase(t))
	if len(answers) == 0 {
		return nil
	}
	return Usagef(toCopy(likeliest(answers)), "there is no command %q", all.wrongName(t))
}

// showInstead answers a name behind a list, as in "ls gpu-7", with the command that shows one thing; nil: that is not what is wrong, or
// the group has none.
func (all catalog) showInstead(c *Command, args []string) error {
	group, list := strings.CutSuffix(c.full(), " ls")
	if !list || c.Most < 0 || len(args) <= c.Most {
		return nil
	}
	answers := all.inGroup(group, []string{"show"}, typed{words: args})
	if len(answers) == 0 {
		return nil
	}
	return Usagef(toCopy(answers), "muster %s does not take %q", c.Name, args[c.Most])
}

// meant are the commands that the words mean, the likeliest first.
func (all catalog) meant(t typed) []answer {
	group, rest := all.group(t.words)
	answers := slices.Concat(all.phrase(t), all.verb(group, rest, t))
	if group != "" && len(rest) > 0 {
		answers = slices.Concat(all.verb(group, rest, t), all.phrase(t))
	}
	if len(answers) == 0 && group != "" && group != t.words[0] {
		answers = all.inGroup(group, []string{"show", "ls"}, typed{words: rest, flags: t.flags}) // "host gpu-7"
	}
	if len(answers) == 0 {
		answers = all.anywhere(t)
	}
	if place, there := pages.Find(t.words[0]); there && group == "" && len(answers) == 0 {
		answers = []answer{{full: helpName, line: helpName + " " + shown(t.words[0]), summary: place.Subject()}}
	}
	return likeliest(answers)
}

// likeliest are the first of the answers, each command once.
func likeliest(answers []answer) []answer {
	var each []answer
	for _, a := range answers {
		if !slices.ContainsFunc(each, func(other answer) bool { return other.full == a.full }) {
			each = append(each, a)
		}
	}
	return each[:min(mostAnswers, len(each))]
}

// phrase are the command lines that the first two words stand for, or the first one.
func (all catalog) phrase(t typed) []answer {
	for n := min(3, len(t.words)); n > 0; n-- {
		for _, m := range meaning.Phrases() {
			if !m.Has(strings.Join(t.words[:n], " ")) {
				continue
			}
			var answers []answer
			for _, line := range m.Means() {
				answers = append(answers, all.filled(line, typed{words: t.words[n:], flags: t.flags}))
			}
			return answers
		}
	}
	return nil
}

// filled is a command line with the arguments and flags that were given, in their places.
func (all catalog) filled(line string, t typed) answer {
	before, program, behind := strings.Cut(line, " -- ")
	c := all.named(before)
	var words []string
	left := t.words
	for _, word := range strings.Fields(before) {
		at, inBraces := strings.IndexByte(word, '{'), strings.HasSuffix(word, "}")
		if at < 0 || !inBraces {
			words = append(words, word)
			continue
		}
		name := word[at+1 : len(word)-1]
		one, each := strings.CutSuffix(name, "...")
		switch {
		case len(left) == 0 && each && c.selects(t.flags):
		case len(left) == 0:
			words = append(words, word[:at]+one)
		case each:
			for _, arg := range left {
				words = append(words, shown(arg))
			}
			left = nil
		default:
			words = append(words, word[:at]+shown(left[0]))
			left = left[1:]
		}
	}
	a := answer{full: c.full(), line: strings.Join(append(words, c.taken(t.flags)...), " "), summary: c.Summary}
	if behind {
		a.line += " -- " + program
	}
	return a
}

// named is the command that a line begins with. muster serve and muster help are none of the catalog's.
func (all catalog) named(line string) *Command {
	words := strings.Fields(line)
	if c, _, _ := all.find(words); c != nil {
		return c
	}
	if words[0] == helpName {
		place, _ := pages.Find(words[1])
		return &Command{Name: line, Summary: cmp.Or(place.Subject(), "read")}
	}
	return &Command{Name: line, Summary: "run the gateway"}
}

// taken are the flags of these that the command takes.
func (c *Command) taken(flags []givenFlag) []string {
	var texts []string
	for _, f := range flags {
		if slices.Contains(c.Flags, f.name) {
			texts = append(texts, f.text)
		}
	}
	return texts
}

// selects is true if a flag says which nodes are meant, so that they are not named.
func (c *Command) selects(flags []givenFlag) bool {
	const selector = "selector"
	return slices.Contains(c.Flags, selector) && slices.ContainsFunc(flags, func(f givenFlag) bool { return f.name == selector })
}

// verb are the commands of a group that the words behind it mean. Without words those are meant that a group is for; without a group, those
// of nodes.
func (all catalog) verb(group string, rest []string, t typed) []answer {
	if len(rest) == 0 {
		return all.inGroup(group, []string{"ls", "create", "add", "run"}, typed{})
	}
	if group == "" {
		group = usualGroup
	}
	after := typed{words: rest[1:], flags: t.flags, behind: t.behind}
	answers := all.inGroup(group, []string{rest[0]}, after)
	for i := range all {
		if c := &all[i]; c.Name == rest[0] && strings.HasPrefix(c.For, group+" ") { // "node ssh"
			answers = append(answers, c.with(c.For, after))
		}
	}
	for _, m := range meaning.Verbs() {
		if m.Has(rest[0]) {
			answers = append(answers, all.inGroup(group, m.Means(), after)...)
		}
	}
	return answers
}

// anywhere are the commands of all groups that the first word is the last word of: "promote".
func (all catalog) anywhere(t typed) []answer {
	var answers []answer
	for i := range all {
		if c := &all[i]; strings.HasSuffix(c.Name, " "+t.words[0]) {
			answers = append(answers, c.with(c.Name, typed{words: t.words[1:], flags: t.flags, behind: t.behind}))
		}
	}
	return answers
}

// group is the group that the first words name, by its own name or another one; empty: they name none. rest are the words behind it.
func (all catalog) group(words []string) (group string, rest []string) {
	for _, m := range meaning.Nouns() {
		if m.Has(words[0]) {
			return m.Means()[0], words[1:]
		}
	}
	for n := len(words); n > 0; n-- {
		if all.isGroup(words[:n]) {
			return strings.Join(words[:n], " "), words[n:]
		}
	}
	return "", words
}

// inGroup are those of a group's commands that have one of these last words.
func (all catalog) inGroup(group string, last []string, t typed) []answer {
	var answers []answer
	for _, word := range last {
		for i := range all {
			if c := &all[i]; c.Name == group+" "+word {
				answers = append(answers, c.with(c.Name, t))
			}
		}
	}
	return answers
}

// with is the command with what was typed behind it, as far as it takes that. Where it needs more, the words of its usage stand.
func (c *Command) with(name string, t typed) answer {
	var words []string
	for _, arg := range t.words {
		if secret := strings.Contains(arg, "://") && slices.Contains(c.Flags, "file"); !secret { // that goes into the file
			words = append(words, shown(arg))
		}
	}
	if c.Most >= 0 {
		words = words[:min(len(words), c.Most)]
	}
	if asks := c.asksFor(); len(words) == 0 && c.Most != 0 && !c.selects(t.flags) || len(words) < c.Least {
		words = append(words, asks[min(len(words), len(asks)):]...)
	}
	words = append(words, c.taken(t.flags)...)
	if t.behind != nil && c.Program {
		words = append(words, "--")
		for _, arg := range t.behind {
			words = append(words, shown(arg))
		}
	}
	return answer{full: c.full(), line: strings.Join(append([]string{name}, words...), " "), summary: c.Summary}
}

// asksFor are the words of the command's usage that must be there: of "DIR|FILE... [NAME]", DIR.
func (c *Command) asksFor() []string {
	usage, _, _ := strings.Cut(c.Args, "[")
	usage, _, _ = strings.Cut(usage, " | ")
	var words []string
	for _, word := range strings.Fields(usage) {
		word, _, _ = strings.Cut(word, "|")
		words = append(words, strings.TrimSuffix(word, "..."))
	}
	return words
}

// didYouMean asks for what was probably meant: the names that are nearest to what was typed, each behind before. It is empty where no
// name is near.
func didYouMean(before string, typed, names []string) string {
	near := spelling.Nearest(typed, names)
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + before + strings.Join(near, " or "+before) + "?"
}
