package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/kit"
	"muster/store"
)

func TestUsage(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, "muster help commands"},
		{"node", 2, "Commands of muster node:"},
		{"nodse ls", 2, "did you mean muster node ls?"},
		{"node lst", 2, "did you mean muster node ls?"},
		{"evnts", 2, "did you mean muster events?"},
		{"srve", 2, "did you mean muster serve?"},
		{"zzzzzzzz", 2, "muster --help shows what people need most"},
		{"help zzzzzzzz", 2, "the pages are quickstart, "},
		{"help joinin", 2, "did you mean muster help joining? The pages are quickstart, "},
		{"help joining now", 2, "muster help joining"},
		{"node ls --selectr x", 2, "did you mean --selector?"},
		{"node ls --token msa_x", 2, "secrets do not stand in arguments"},
		{"node ls --qqqqqqqq", 2, "there is no flag --qqqqqqqq"},
		{"node gpus box -1", 2, "no negative number can stand here"},
		{"events --since -5m", 2, "which is not longer than 0s"},
		{"events --since 36501d", 2, "which is too long: 36500d is the most"},
		{"events --since 9999999999h", 2, "which is too long"},
		{"events --since 5", 2, "it has no unit"},
		{"node ls --token=secret", 2, "there is no flag --token\n"},
		{"node ls --uses 3", 2, "muster node ls takes no --uses"},
		{"node ls extra", 2, `does not take "extra"`},
		{"node ls -o", 2, "--output needs a value"},
		{"node ls -o yaml", 2, "one of table, wide, json"},
		{"node ls --all=no", 2, "takes no value"},
		{"node show", 2, "which nodes?"},
		{"node show x -o yaml", 2, "one of table, wide, json"},
		{"token revoke", 2, "needs ID"},
		{"token create --uses none", 2, "whole number"},
		{"token create --uses 0", 2, "whole number from 1"},
		{"token create --gpus -1", 2, "whole number from 0"},
		{"token create --ttl 5", 2, "no duration"},
		{"token create --label channel=a/b", 1, "such as channel=stable"},
		{"token create --label x", 2, "is no label"},
		{"token create -o x", 2, "one of table"},
		{"token ls -o x", 2, "one of table"},
		{"psk ls -o x", 2, "one of table"},
		{"psk set -o x", 2, "one of table"},
		{"events -o x", 2, "one of table"},
		{"events --since x", 2, "no duration"},
		{"events --limit 0", 2, "whole number"},
		{"psk set correct-horse-battery-staple", 2, "does not take"},
		{"completion tcsh", 2, "no completion"},
		{"completion", 2, "needs bash|zsh|fish"},
		{"node ls --url https://x", 2, "--data and --url exclude each other"},
	} {
		code, stdout, stderr := h.muster(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, "hint: ") || stdout != "" {
			t.Errorf("%q: code %d\n%s\n%s", c.args, code, stdout, stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	h := newHouse(t)
	kit.Golden(t, "help.golden", h.done("--help"))
	kit.Golden(t, "help-commands.golden", h.done("help", "commands"))
	kit.Golden(t, "help-node.golden", h.done("help", "node"))
	kit.Golden(t, "help-token-create.golden", h.done("token", "create", "--help"))
	got := h.done("-h")
	if want := h.done("--help"); got != want {
		t.Errorf("-h says something else than --help:\n%s", got)
	}
	if got := h.done("help", "serve"); !strings.Contains(got, "muster serve --help") {
		t.Errorf("serve: %s", got)
	}
	for _, name := range []string{"token create", "token ls", "token revoke", "psk set", "psk rotate", "psk clear", "psk ls", "node ls",
		"node show",
		"node wait", "node label", "node drain", "node resume", "node retire", "node ban", "events", "completion", "version"} {
		text := h.done(append(strings.Fields(name), "--help")...)
		if !strings.HasPrefix(text, "Usage: muster "+name) || !strings.Contains(text, "\nExamples:\n  ") {
			t.Errorf("help of %s:\n%s", name, text)
		}
		if same := h.done(append([]string{"help"}, strings.Fields(name)...)...); same != text {
			t.Errorf("help %s says something else than %s --help", name, name)
		}
		for _, line := range strings.Split(text, "\n") {
			if len(line) > 160 {
				t.Errorf("help of %s has a long line: %s", name, line)
			}
		}
	}
}

// TestHelpTopics: the list has every page and no more, a page has the width and the style that its screen takes.
func TestHelpTopics(t *testing.T) {
	h := newHouse(t)
	list := h.done("help", "pages")
	for _, topic := range help.Topics() {
		if !strings.Contains(list, "\n  "+topic.Name+" ") || !strings.Contains(list, " "+topic.Summary+"\n") {
			t.Errorf("the list lacks %s:\n%s", topic.Name, list)
		}
		if page := h.done("help", topic.Name); !strings.HasPrefix(page, help.Render(help.Text(topic.Name), 80, false)) {
			t.Errorf("piped, help %s is not plain and 80 columns wide", topic.Name)
		}
	}
	for screen, columns := range map[int]int{60: 60, 100: 100, 250: 100} {
		h.screen = screen
		if page := h.done("help", "joining"); page != help.Render(help.Text("joining"), columns, true) {
			t.Errorf("on %d columns, help joining is not %d wide, with style", screen, columns)
		}
	}
	h.env["TERM"] = "dumb"
	if page := h.done("help", "joining"); strings.Contains(page, "\x1b") {
		t.Error("a terminal that can nothing gets escapes")
	}
	if page := h.done("help", "backup"); !strings.HasSuffix(page, "\n\n  `muster backup --help` explains the command of that name.\n") {
		t.Errorf("the page does not lead to the command of its name:\n%s", page)
	}
}

// TestShowNamesThePage: what keeps a node from work, or from being heard, leads to the page that goes through it.
func TestShowNamesThePage(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "well", Tenant: "platform"}, time.Second, "")
	h.node(store.Node{Name: "silent", Tenant: "platform"}, time.Hour, "")
	h.node(store.Node{Name: "awaited", Tenant: "platform"}, -1, "")
	for name, page := range map[string]string{"well": "", "silent": "stale-node", "awaited": "not-joining"} {
		shown := h.done("node", "show", name)
		if found := strings.Contains(shown, "muster help"); found != (page != "") || !strings.Contains(shown, page) {
			t.Errorf("%s: want the page %q:\n%s", name, page, shown)
		}
	}
	for _, topic := range []string{"stale-node", "identity-trouble", "no-telemetry", "not-joining"} {
		if help.Text(topic) == "" {
			t.Errorf("messages name the page %s, which is not there", topic)
		}
	}
	h.node(store.Node{Name: "given-back", Tenant: "platform"}, time.Hour, "")
	h.done("node", "retire", "given-back", "--yes")
	if shown := h.done("node", "show", "given-back"); strings.Contains(shown, "muster help") {
		t.Errorf("a node that was given back is silent by right:\n%s", shown)
	}
}

// TestExamples parses the examples of every help page: what help teaches must not be refused as used wrongly.
func TestExamples(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"token create", "token ls", "token revoke", "psk rotate", "psk clear", "node ls", "node show",
		"node drain", "node wait", "node label"} {
		_, examples, _ := strings.Cut(h.done(append(strings.Fields(name), "--help")...), "\nExamples:\n")
		for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(examples, "\\\n", "")), "\n") {
			words := strings.Fields(line)
			if i := slices.Index(words, "|"); i > 0 {
				words = words[:i]
			}
			if slices.Contains(words, "--watch") { // it goes on without an end
				continue
			}
			if code, _, stderr := h.muster(words[1:]...); code == 2 {
				t.Errorf("%s: %s", line, stderr)
			}
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	h := newHouse(t)
	if got := h.done("version"); got != "muster 1.2.3\n" {
		t.Errorf("version: %q", got)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := h.done("completion", shell)
		for _, word := range []string{"token", "rotate", "serve", "selector"} {
			if !strings.Contains(script, word) {
				t.Errorf("%s: no %s", shell, word)
			}
		}
		if shell == "fish" {
			continue
		}
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
	for typed, want := range map[string]string{
		"muster no":                       "node",
		"muster node d":                   "drain",
		"muster --data DIR -o json psk r": "rotate",
		"muster node ls --sel":            "--selector",
		"muster node ls --us":             "",
		"muster completion z":             "zsh",
		"muster help joi":                 "joining",
	} {
		words := strings.Fields(typed)
		script := h.done("completion", "bash") + "\nCOMP_WORDS=(" + typed + ")\nCOMP_CWORD=" + string(rune('0'+len(words)-1)) +
			"\n_muster\necho \"${COMPREPLY[*]}\"\n"
		run := exec.Command("bash", "--norc")
		run.Stdin = strings.NewReader(script)
		if out, err := run.Output(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: completed to %q, want %q (%v)", typed, out, want, err)
		}
	}
}

func TestFirstWord(t *testing.T) {
	for _, c := range []struct{ args, name, rest string }{
		{"serve --listen :1", "serve", "--listen :1"},
		{"--data DIR serve --listen :1", "serve", "--data DIR --listen :1"},
		{"--data=DIR -y serve", "serve", "--data=DIR -y"},
		{"-o json node ls", "node", "-o json ls"},
		{"--help", "", "--help"},
		{"-- serve", "", "-- serve"},
		{"", "", ""},
	} {
		name, rest := cli.FirstWord(strings.Fields(c.args))
		if name != c.name || strings.Join(rest, " ") != c.rest {
			t.Errorf("%q: got %q, %q", c.args, name, rest)
		}
	}
}

func TestEnvironment(t *testing.T) {
	h := example(t)
	h.env = map[string]string{"MUSTER_DATA": h.dir, "MUSTER_OUTPUT": "json", "MUSTER_SELECTOR": "name=node-dgx-spark"}
	code, out, errs := h.run(t.Context(), "node", "ls")
	if code != 0 || !strings.HasPrefix(out, `{"nodes":[`) || strings.Contains(out, "vast") {
		t.Errorf("code %d\n%s\n%s", code, out, errs)
	}
	code, out, _ = h.run(t.Context(), "node", "ls", "-l", "name=vast-h100-39467543", "-o", "table")
	if code != 0 || !strings.Contains(out, "vast") {
		t.Errorf("flags do not win: %d\n%s", code, out)
	}
	h.env["MUSTER_URL"] = "http://gateway.example"
	if code, _, errs = h.run(t.Context(), "node", "ls"); code != 1 || !strings.Contains(errs, "plain http") {
		t.Errorf("a URL does not win over MUSTER_DATA: %d %s", code, errs)
	}
	if code, _, errs := h.run(t.Context(), "--data", h.dir, "node", "ls"); code != 0 {
		t.Errorf("--data does not win over MUSTER_URL: %d %s", code, errs)
	}
	h.env = map[string]string{"MUSTER_DATA": h.dir, "MUSTER_ALL": "perhaps"}
	if code, _, errs := h.run(t.Context(), "node", "ls"); code != 2 || !strings.Contains(errs, `MUSTER_ALL has the value "perhaps"`) {
		t.Errorf("a wrong value: %d %s", code, errs)
	}
	h.env = map[string]string{"MUSTER_DATA": h.dir, "MUSTER_LABEL": "a=b,c=d", "MUSTER_BIND_INSTANCE": "true"}
	if _, out, _ := h.run(t.Context(), "token", "create", "-o", "json"); !strings.Contains(out, `"labels":{"a":"b","c":"d"}`) ||
		!strings.Contains(out, `"bind_instance":true`) {
		t.Errorf("labels: %s", out)
	}
	if code, _, errs := h.run(t.Context(), "token", "create", "--label", "a=b", "--label", "a=c"); code != 2 ||
		!strings.Contains(errs, `the label "a" is given twice`) {
		t.Errorf("a label twice: %d %s", code, errs)
	}
}

func TestAPIToken(t *testing.T) {
	h := newHouse(t)
	token, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, variable, stdin, args, says string }{
		{"none", "", "", "", "set MUSTER_API_TOKEN"},
		{"environment", token.Reveal(), "", "", "cannot reach"},
		{"file", "", "", "--token-file " + file, "cannot reach"},
		{"standard input", "", token.Reveal(), "--token-file -", "cannot reach"},
		{"no file", "", "", "--token-file " + file + "x", "no such file"},
		{"large file", "", strings.Repeat("x", 70000), "--token-file -", "longer than"},
		{"mistyped", token.Reveal() + "x", "", "", "mistyped"},
	} {
		h.env = map[string]string{"MUSTER_API_TOKEN": c.variable}
		h.stdin = c.stdin
		args := append(strings.Fields("--url https://127.0.0.1:1 node ls"), strings.Fields(c.args)...)
		code, _, stderr := h.run(t.Context(), args...)
		if code != 1 || !strings.Contains(stderr, c.says) || strings.Contains(stderr, token.Secret) {
			t.Errorf("%s: code %d, %s", c.name, code, stderr)
		}
	}
}

func TestNoGateway(t *testing.T) {
	h := newHouse(t)
	for _, args := range []string{"node ls", "node ls -o json", "node show x", "node wait x", "node drain x", "node label x a=b",
		"token create", "token ls", "psk ls",
		"psk set --generate", "psk clear", "events", "events --since 1h"} {
		code, _, stderr := h.run(t.Context(), append([]string{"--data", t.TempDir()}, strings.Fields(args)...)...)
		if code != 1 || !strings.Contains(stderr, "muster serve --data") {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
}

func TestOutputFails(t *testing.T) {
	h := example(t)
	for _, args := range []string{"node ls", "node ls -o json", "node show node-dgx-spark", "node drain node-dgx-spark", "token create",
		"token ls", "token ls -o json", "psk ls", "events", "events -o json", "version", "completion bash", "help"} {
		var errs strings.Builder
		code := cli.Run(t.Context(), cli.Env{Args: append([]string{"--data", h.dir}, strings.Fields(args)...),
			Getenv: func(string) string { return "" },
			Stdin:  strings.NewReader(""), Stdout: broken{}, Stderr: &errs}, commands.All())
		if code != 1 || !strings.Contains(errs.String(), "the disk is full") {
			t.Errorf("%s: code %d, %s", args, code, errs.String())
		}
	}
}

// TestNobodyIsBehindNull asks on /dev/null, which is a character device as a terminal is.
func TestNobodyIsBehindNull(t *testing.T) {
	h := example(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out, errs strings.Builder
	code := cli.Run(t.Context(), cli.Env{Args: []string{"--data", h.dir, "node", "retire", "node-dgx-spark"},
		Getenv: func(string) string { return "" },
		Stdin:  null, Stdout: &out, Stderr: &errs}, commands.All())
	if code != 2 || !strings.Contains(errs.String(), "add --yes") {
		t.Errorf("code %d, %s", code, errs.String())
	}
}
