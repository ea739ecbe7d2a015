package main

import (
	"regexp"
	"slices"
	"strings"

	"muster/gateway/internal/cli/help"
)

var (
	fences    = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```")
	spans     = regexp.MustCompile("`([^`]+)`")
	called    = regexp.MustCompile(`(?:^|[\s;&|("'/])(muster|muster-agent) +([^|;&#>)"']*)`)
	domain    = regexp.MustCompile(`muster( [a-z]+)+ v[0-9]`)       // what a MAC or a signature begins with
	toJoin    = regexp.MustCompile(`(?:^|\s)-- (--.*)`)             // flags behind the installer's command
	units     = regexp.MustCompile(`-[uo] (muster|muster-agent)\b`) // of systemd, and the owner of a file
	variables = regexp.MustCompile(`\b(?:MUSTER|NODE_BOOTSTRAP)_[A-Z0-9_]*[A-Z0-9]`)
	codeWord  = regexp.MustCompile(`^([a-z0-9]+(_[a-z0-9]+)+|(node|token|enrol|adopt|events|identity|certificate)\.[a-z_]+)$`)
	target    = regexp.MustCompile(`^make ([a-z-]+)`)
	flagName  = regexp.MustCompile(`^\[?(--?[a-z][a-z-]*)`)
	verb      = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// dead lists what a text names that does not exist.
func (l *lexicon) dead(text string) []string {
	var found []string
	for _, name := range variables.FindAllString(text, -1) {
		if !l.variable(name) {
			found = append(found, "the variable "+name)
		}
	}
	for _, block := range fences.FindAllStringSubmatch(text, -1) {
		for _, line := range commandLines(block[1]) {
			found = append(found, l.deadCommands(line)...)
		}
	}
	prose := strings.ReplaceAll(fences.ReplaceAllString(text, ""), "\n", " ") // a line may end within code
	for _, span := range spans.FindAllStringSubmatch(prose, -1) {
		found = append(found, l.deadSpan(strings.ReplaceAll(span[1], `\|`, "|"))...)
	}
	return found
}

// commandLines are a block's lines with those that go on joined. If prompts show what is typed, the rest is output.
func commandLines(block string) []string {
	block = strings.ReplaceAll(block, "\\\n", " ")
	lines := strings.Split(block, "\n")
	if !strings.Contains("\n"+block, "\n$ ") {
		return lines
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "$ ") })
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "$ ")
	}
	return lines
}

func (l *lexicon) deadSpan(span string) []string {
	switch {
	case strings.HasPrefix(span, "-") && !strings.HasPrefix(span, "-- "):
		return l.deadFlags("", strings.Fields(span))
	case codeWord.MatchString(span) && !strings.Contains(l.sources, span):
		return []string{"the word " + span}
	}
	return l.deadCommands(span)
}

func (l *lexicon) deadCommands(line string) []string {
	var found []string
	for _, text := range domain.FindAllString(line, -1) {
		if !strings.Contains(l.sources, text) {
			found = append(found, text)
		}
	}
	line = units.ReplaceAllString(domain.ReplaceAllString(line, ""), "")
	for _, made := range target.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(l.targets, "\n"+made[1]+":") {
			found = append(found, made[0])
		}
	}
	if after := toJoin.FindStringSubmatch(line); after != nil {
		found = append(found, l.deadFlags("muster-agent join", strings.Fields(after[1]))...)
		line = line[:len(line)-len(after[0])]
	}
	for _, call := range called.FindAllStringSubmatch(line, -1) {
		found = append(found, l.deadCall(call[1], strings.Fields(call[2]))...)
	}
	return found
}

// deadCall looks a command up, and the flags that it is given.
func (l *lexicon) deadCall(program string, words []string) []string {
	for len(words) > 1 && strings.HasPrefix(words[0], "--") && verb.MatchString(words[0][2:]) && !strings.HasPrefix(words[1], "-") {
		words = words[2:] // a flag before the command, and its value
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "-") {
		return l.deadFlags("", words)
	}
	if len(words) == 0 || !verb.MatchString(words[0]) { // the program alone, COMMAND, or an argument of another program
		return nil
	}
	if program == "muster" && words[0] == "help" {
		_, leads := help.Find(words[min(1, len(words)-1)])
		if len(words) == 1 || strings.ToUpper(words[1]) == words[1] || leads || slices.Contains([]string{"commands", "pages"}, words[1]) ||
			l.group(words[1]) {
			return nil
		}
		return []string{"the topic " + words[1]}
	}
	for n := min(3, len(words)); n > 0; n-- {
		name := program + " " + strings.Join(words[:n], " ")
		if _, known := l.commands[name]; known {
			return l.deadFlags(name, words[n:])
		}
	}
	if len(words) == 1 && l.group(words[0]) {
		return nil
	}
	return []string{"the command " + program + " " + strings.Join(words, " ")}
}

// group tells whether commands of muster begin with a word.
func (l *lexicon) group(first string) bool {
	for name := range l.commands {
		if strings.HasPrefix(name+" ", "muster "+first+" ") {
			return true
		}
	}
	return false
}

// deadFlags gives the flags among the words that a command does not have, or no command if none is named.
func (l *lexicon) deadFlags(command string, words []string) []string {
	var found []string
	for _, one := range words {
		if one == "--" {
			break
		}
		flag := flagName.FindStringSubmatch(one)
		if flag != nil && !l.flag(command, strings.TrimLeft(flag[1], "-")) {
			found = append(found, strings.TrimSpace(command+" "+flag[1]))
		}
	}
	return found
}

func (l *lexicon) flag(command, name string) bool {
	there := regexp.MustCompile(`(?m)(^ *| )--?` + regexp.QuoteMeta(name) + `([ ,]|$)`)
	for known, text := range l.commands {
		if (command == "" || known == command) && there.MatchString(text) {
			return true
		}
	}
	return name == "help"
}

// variable: every flag has one, and the programs read some more.
func (l *lexicon) variable(name string) bool {
	bare := strings.TrimPrefix(name, "MUSTER_")
	flag := strings.TrimPrefix(bare, "NODE_")
	read := strings.Contains(l.sources, `"`+name+`"`) || strings.Contains(l.sources, "${"+name) ||
		strings.Contains(l.sources, `Prefix + "`+bare+`"`) // as agent/wire writes the agent's
	return read || l.flag("", strings.ToLower(strings.ReplaceAll(flag, "_", "-")))
}
