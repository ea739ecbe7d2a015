package profile

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"muster/gateway/api"
)

// agentPath is where a profile's cloud-config finds the agent of a machine that has joined.
const agentPath = "/var/lib/muster-agent/current/muster-agent"

// endOfFile ends a file's content in a script.
const endOfFile = "END_OF_PROFILE_FILE"

// Script returns what a profile's cloud-config does, as a script for sh whose argument is the path of the agent: for machines that get no
// cloud-config, and that have not joined yet. It knows packages, write_files and runcmd, and the forms of YAML in which the built-in
// profiles have them. It refuses what it does not know: half a profile is of no use.
func Script(p api.Profile) (string, error) {
	c, err := readConfig(p.CloudConfig)
	if err != nil {
		return "", refuse("the cloud-config of profile "+p.Name+" cannot be made a script: "+err.Error(),
			"use packages, write_files and runcmd as the built-in profiles do: muster profile show "+api.ProfileSliceVM)
	}
	var out strings.Builder
	for _, f := range c.files {
		fmt.Fprintf(&out, "mkdir -p %s\ncat >%s <<'%s'\n%s%s\nchmod %s %s\n", quote(path.Dir(f.path)), quote(f.path), endOfFile, f.content,
			endOfFile, f.mode, quote(f.path))
	}
	if len(c.packages) > 0 {
		out.WriteString("export DEBIAN_FRONTEND=noninteractive\napt-get update || echo 'the package lists are not new'\n" +
			"apt-get -o DPkg::Lock::Timeout=180 -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install -y")
		for _, name := range c.packages {
			out.WriteString(" " + quote(name))
		}
		out.WriteString("\n")
	}
	for _, command := range c.commands { // a failure before && is no failure for set -e
		out.WriteString("{\n" + command + "\n} || exit\n")
	}
	return out.String(), nil
}

// quote makes any text one word of a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// config is what a cloud-config asks for.
type config struct {
	packages []string
	files    []file
	commands []string // for sh; the agent is "$1" in them
}

type file struct{ path, mode, content string }

// readConfig reads the part of YAML that profiles use.
func readConfig(text string) (c config, err error) {
	if strings.ContainsRune(text, '\t') || strings.Contains(text, endOfFile) {
		return c, fmt.Errorf("it has a tab, or %s", endOfFile)
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	seen := []string{}
	for len(lines) > 0 {
		if skipped(lines[0]) {
			lines = lines[1:]
			continue
		}
		key, rest, ok := strings.Cut(lines[0], ":")
		if !ok || indentOf(key) > 0 || slices.Contains(seen, key) {
			return c, fmt.Errorf("the line %.80q", lines[0])
		}
		seen = append(seen, key)
		var items [][]string
		if items, lines, err = itemsOf(strings.TrimSpace(rest), lines[1:]); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
		if err = c.add(key, items); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	return c, nil
}

func skipped(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// itemsOf splits a list into its items: lines, without the indent of the first. It gives the lines that follow the list.
func itemsOf(rest string, lines []string) (items [][]string, left []string, err error) {
	if rest != "" {
		words, err := flow(rest)
		for _, word := range words {
			items = append(items, []string{quote(word)}) // as a plain word, whatever it has
		}
		return items, lines, err
	}
	depth := -1
	for len(lines) > 0 {
		line := lines[0]
		in := indentOf(line)
		switch text := line[in:]; {
		case text == "" && len(items) > 0: // perhaps inside a text
			items[len(items)-1] = append(items[len(items)-1], "")
		case skipped(line) && (depth < 0 || in <= depth):
		case strings.HasPrefix(text, "- ") && (depth < 0 || in == depth):
			depth = in
			items = append(items, []string{strings.TrimLeft(text[2:], " ")})
		case depth >= 0 && in > depth:
			items[len(items)-1] = append(items[len(items)-1], strings.TrimPrefix(line, strings.Repeat(" ", depth+2)))
		case in == 0:
			return items, lines, nil
		default:
			return nil, nil, fmt.Errorf("the line %.80q", line)
		}
		lines = lines[1:]
	}
	return items, nil, nil
}

func (c *config) add(key string, items [][]string) error {
	for _, item := range items {
		switch key {
		case "packages":
			name, err := scalar(strings.Join(item, ""))
			if err != nil || strings.HasPrefix(name, "-") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.+-:=~") != "" {
				return fmt.Errorf("%.80q is no package", item)
			}
			c.packages = append(c.packages, name)
		case "runcmd":
			text, err := command(item)
			if err != nil {
				return err
			}
			c.commands = append(c.commands, text)
		case "write_files":
			f, err := readFile(item)
			if err != nil {
				return err
			}
			c.files = append(c.files, f)
		default:
			return errors.New("it is not known")
		}
	}
	return nil
}

// command is one command for sh: a text, which may go on in the next lines, or a list of words.
func command(item []string) (string, error) {
	if strings.HasPrefix(item[0], "[") {
		words, err := flow(strings.Join(item, " "))
		for i, word := range words {
			if words[i] = quote(word); word == agentPath {
				words[i] = `"$1"`
			}
		}
		return strings.Join(words, " "), err
	}
	var parts []string
	for _, line := range item {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	text := strings.Join(parts, " ")
	if strings.HasPrefix(text, "|") || strings.HasPrefix(text, ">") || strings.Contains(text, " #") {
		return "", fmt.Errorf("the command %.80q has a form that is not known", text)
	}
	text, err := scalar(text)
	return strings.ReplaceAll(text, agentPath, `"$1"`), err
}

// readFile reads a file to write: path, content, permissions, and the owner, who is root.
func readFile(item []string) (file, error) {
	f := file{mode: "644"}
	for len(item) > 0 {
		key, rest, ok := strings.Cut(item[0], ":")
		rest = strings.TrimSpace(rest)
		if item[0] == "" && key == "" {
			item = item[1:]
			continue
		}
		item = item[1:]
		if ok && key == "content" && rest == "|" {
			f.content, item = block(item)
			continue
		}
		value, err := scalar(rest)
		switch {
		case err != nil || !ok:
			return f, fmt.Errorf("%.80q: %v", key, err)
		case key == "path" && path.IsAbs(value) && path.Clean(value) == value:
			f.path = value
		case key == "permissions" && len(value) > 0 && len(value) <= 4 && strings.Trim(value, "01234567") == "":
			f.mode = value
		case key == "content":
			f.content = value + "\n"
		case key == "owner" && (value == "root:root" || value == "root"):
		default:
			return f, fmt.Errorf("%.80q is not known, or has a value that is not", key)
		}
	}
	if f.path == "" {
		return f, errors.New("a file has no path")
	}
	return f, nil
}

// block is the text after |, up to the line that has less indent.
func block(lines []string) (text string, left []string) {
	depth := -1
	var out []string
	for len(lines) > 0 {
		line := lines[0]
		if in := indentOf(line); strings.TrimSpace(line) != "" {
			if depth < 0 {
				depth = in
			}
			if in < depth || depth == 0 {
				break
			}
			line = line[depth:]
		} else {
			line = ""
		}
		out, lines = append(out, line), lines[1:]
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n") + "\n", lines
}

// flow reads [a, b].
func flow(text string) ([]string, error) {
	inner, ok := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("%.80q is not a list in brackets", text)
	}
	var words []string
	for word := range strings.SplitSeq(inner, ",") {
		word, err := scalar(strings.TrimSpace(word))
		if err != nil || word == "" {
			return nil, fmt.Errorf("%.80q: quotes and commas inside are not known", text)
		}
		words = append(words, word)
	}
	return words, nil
}

// scalar reads one value: plain, or in quotes inside which nothing is escaped.
func scalar(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	switch first := text[0]; {
	case first == '\'' || first == '"':
		if len(text) < 2 || text[len(text)-1] != first || strings.ContainsAny(text[1:len(text)-1], string(first)+`\`) {
			return "", fmt.Errorf("%.80q has quotes inside", text)
		}
		return text[1 : len(text)-1], nil
	case strings.ContainsRune("&*!|>%@`{}[],?", rune(first)):
		return "", fmt.Errorf("%.80q begins with a sign of YAML", text)
	}
	return text, nil
}
