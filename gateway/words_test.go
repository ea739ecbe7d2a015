package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/help"
)

// Bounds of the README: what is more is a page of muster help.
const (
	readmeLines = 200
	readmeWords = 1800
)

func TestReadmeIsShort(t *testing.T) {
	text := readme(t)
	if n := strings.Count(text, "\n"); n > readmeLines {
		t.Errorf("the README has %d lines, at most %d", n, readmeLines)
	}
	if n := len(strings.Fields(text)); n > readmeWords {
		t.Errorf("the README has %d words, at most %d", n, readmeWords)
	}
}

// topicNamed finds the pages that messages name.
var topicNamed = regexp.MustCompile(`muster help ([a-z]+-[a-z-]+[a-z])`)

// TestNoDeadNames: every command, flag, variable, page and code that the README and the pages of help name is there.
func TestNoDeadNames(t *testing.T) {
	l := newLexicon(t)
	for _, dead := range l.dead(readme(t)) {
		t.Errorf("the README names %s", dead)
	}
	for _, found := range topicNamed.FindAllStringSubmatch(l.sources, -1) {
		if !slices.Contains(help.Names(), found[1]) {
			t.Errorf("a message of the programs names the page %s", found[1])
		}
	}
	for _, name := range help.Names() {
		for _, dead := range l.dead(help.Text(name)) {
			t.Errorf("the page %s names %s", name, dead)
		}
	}
}

// TestHelpFits: no line of any help is wider than a terminal usually is.
func TestHelpFits(t *testing.T) {
	shown := newLexicon(t).commands
	for _, word := range []string{"--help", "help", "help pages"} {
		shown["muster "+word] = ownHelp(t, strings.Fields(word)...)
	}
	for command, text := range shown {
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > cli.HelpColumns {
				t.Errorf("the help of %s has a line of %d columns:\n%s", command, n, line)
			}
		}
	}
}

// TestDeadNamesAreFound proves that the test above can fail.
func TestDeadNamesAreFound(t *testing.T) {
	l := newLexicon(t)
	for _, text := range []string{
		"`muster nod ls`",
		"`muster node lst`",
		"`muster alert receiver lst`",
		"`muster node ls --selectro x`",
		"`muster node ls --uses 3`",
		"`muster-agent joyn`",
		"`muster-agent status --gateway URL`",
		"`--no-such-flag`",
		"`--listen :1 --lisden`",
		"`MUSTER_NOTHING`",
		"MUSTER_PLANE_LISTEN",
		"`muster help nothing`",
		"`make nothing`",
		"a `muster\nnode lst` and more",
		"`no_such_code`",
		"`node.nothing`",
		"`muster nothing v1`",
		"`-- --check --nothing`",
		"```\n$ bin/muster --data .muster toke create\n```\n",
		"```\nsudo muster serve --public-url https://gw.example \\\n     --nothing\n```\n",
		"```\nx | muster psk set --secret y\n```\n",
		"```\nMUSTER_TOKEN=mse_... sh -c '...' -- --nothing\n```\n",
		"```\nmuster service install --nothing\n```\n",
	} {
		if len(l.dead(text)) != 1 {
			t.Errorf("%q: found %q, want one dead name", text, l.dead(text))
		}
	}
	for _, text := range []string{
		"`muster node ls -l tier=spot -o wide`",
		"`muster COMMAND --help`",
		"`muster help TOPIC`",
		"`muster help node`",
		"```\n$ muster --data .muster node ls\nmuster 53e16f2 serves\n```\n",
		"`curl --cacert ca.pem`",
		"`muster enroll v1`",
		"`NODE_BOOTSTRAP_REGISTRY`",
		"`-- --name gpu-7`",
		"`muster service install --public-url URL`",
		"`token_used`",
	} {
		if found := l.dead(text); len(found) != 0 {
			t.Errorf("%q: found %q, want nothing dead", text, found)
		}
	}
}

func readme(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// lexicon is what there is to be named.
type lexicon struct {
	commands map[string]string // help of each, by "muster node ls" and "muster-agent join"
	sources  string            // what the programs are made of
	targets  string            // the Makefile
}

func newLexicon(t *testing.T) *lexicon {
	t.Helper()
	l := &lexicon{commands: map[string]string{}}
	agent := agentBinary(t)
	l.gather(t, "muster", "help commands", func(args ...string) string { return ownHelp(t, args...) })
	l.gather(t, "muster-agent", "--help", func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), agent, args...).Output()
		if err != nil {
			t.Fatalf("muster-agent %q: %v", args, err)
		}
		return string(out)
	})
	l.commands["muster service install"] += l.commands["muster serve"]
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	l.targets = string(makefile)
	l.sources = sources(t)
	return l
}

// listed finds the commands in a program's help: indented by two, a space or two apart from what they do.
var listed = regexp.MustCompile(`(?m)^  ([a-z][a-z -]*[a-z])  +[a-z]`)

// gather asks for the list of a program's commands, and for the help of each.
func (l *lexicon) gather(t *testing.T, program, list string, ask func(...string) string) {
	overview := ask(strings.Fields(list)...)
	l.commands[program] = overview
	if at := strings.Index(overview, "Commands:"); at >= 0 {
		overview = overview[at:]
	}
	for _, found := range listed.FindAllStringSubmatch(overview, -1) {
		if found[1] == "version" {
			l.commands[program+" version"] = ""
			continue
		}
		l.commands[program+" "+found[1]] = ask(append(strings.Fields(found[1]), "--help")...)
	}
	if len(l.commands) < 5 {
		t.Fatalf("the help of %s lists %d commands:\n%s", program, len(l.commands), overview)
	}
}

func ownHelp(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	none := func(string) string { return "" }
	if code := run(t.Context(), args, none, strings.NewReader(""), &out, &errs); code != exitDone {
		t.Fatalf("muster %q: %d %s", args, code, errs.String())
	}
	return out.String()
}

// sources are the programs' own files, without tests and without the pages.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, top := range []string{"../agent", "../gateway", "../store", "../install.sh"} {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			test := strings.HasSuffix(path, "_test.go")
			if err != nil || entry.IsDir() || test || !slices.Contains([]string{".go", ".sh", ".sql"}, filepath.Ext(path)) {
				return err
			}
			raw, err := os.ReadFile(path)
			all.Write(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
