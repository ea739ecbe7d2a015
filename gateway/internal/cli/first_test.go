package cli_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/help"
)

// shortForms are second paths, and the commands that they lead to.
var shortForms = map[string]string{"ls": "node ls", "gpus": "gpu ls", "ssh": "node shell", "shell": "node shell", "exec": "node exec",
	"logs": "node logs", "cp": "node cp", "forward": "node forward",
	"whoami": "account whoami", "run rm": "run stop"}

// TestShortForms: a short form is the same command. It names itself as it was typed, and each of the two names the other.
func TestShortForms(t *testing.T) {
	h := example(t)
	found := map[string]string{}
	for _, c := range commands.All() {
		if c.For != "" {
			found[c.Name] = c.For
		}
	}
	for short, full := range shortForms {
		if found[short] != full {
			t.Errorf("%s leads to %q, want %s", short, found[short], full)
		}
		typed := h.done(append(strings.Fields(short), "--help")...)
		if !strings.HasPrefix(typed, "Usage: muster "+short) || strings.Contains(typed, "  muster "+full) ||
			!strings.Contains(strings.Join(strings.Fields(typed), " "), "muster "+full) {
			t.Errorf("help of %s:\n%s", short, typed)
		}
		whole := h.done(append(strings.Fields(full), "--help")...)
		if !strings.HasPrefix(whole, "Usage: muster "+full) || !strings.Contains(whole, "muster "+short) {
			t.Errorf("help of %s does not name %s:\n%s", full, short, whole)
		}
	}
	if len(found) != len(shortForms) {
		t.Errorf("there are %d short forms: %v", len(found), found)
	}
	for short, full := range map[string]string{"ls -o wide": "node ls -o wide", "gpus": "gpu ls", "-o json ls": "node ls -o json",
		"ls -l status=online":       "ls",
		"ls -l state!=retired":      "ls",
		"ls -l name=node-dgx-spark": "node ls -l name=node-dgx-spark"} {
		if got, want := h.done(strings.Fields(short)...), h.done(strings.Fields(full)...); got != want {
			t.Errorf("%s prints another thing than %s:\n%s\n%s", short, full, got, want)
		}
	}
	for args, want := range map[string]string{
		"ls gpu-1":                    "muster ls does not take \"gpu-1\"\n  hint: show all that is known of nodes:\n          muster node show gpu-1\n",
		"ls --model h100":             "another command does that: muster gpus --model h100\n",
		"rsync -a out gpu-1:/srv/out": "muster cp -r out gpu-1:/srv/out\n",
		"gpus --quiet":                "there is no flag --quiet\n  hint: muster gpus --help shows its flags\n",
		"--quiet":                     "there is no flag --quiet\n  hint: muster help commands shows what there is\n",
		"alert receiver add ops --webhook https://x": "write muster alert receiver add --kind KIND --file FILE",
		"exec --all -- date":                         "write muster exec -l state!=retired",
		"exec -- date":                               "-l status=online selects all that are online",

		"run ls --tenant x": "hint: write muster run ls -l tenant=NAME",
		"node series gpu-1": "hint: write muster node series gpu-1 gpu_utilization_percent",
		"audit ls":          "hint: write muster audit alone",
		"task ls 1 2":       "muster task show 1 2\n",
		"forward gpu-1":     "write muster forward NAME [LOCAL:]PORT... [flags]",
		"cp --uses 3 a b":   "muster cp takes no --uses",
		"logs":              "muster logs: which nodes?",
		"logs ship":         "Commands of muster logs ship:",
	} {
		if code, _, errs := h.muster(strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, want %q in\n%s", args, code, want, errs)
		}
	}
}

// TestFirstScreen: what a new hand sees fits on a screen of 24 lines, with the prompt.
func TestFirstScreen(t *testing.T) {
	h := newHouse(t)
	text := h.done("--help")
	if n := strings.Count(text, "\n"); n > 23 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	if h.done("help") != text {
		t.Error("muster help shows another thing")
	}
	at := 0
	for _, word := range []string{"status", "ls", "gpus", "ssh, shell", "exec", "logs", "cp", "forward", "run", "cost", "doctor", "serve",
		"token create"} {
		next := strings.Index(text[at:], "\n  muster "+word+"  ")
		if next < 0 {
			t.Fatalf("%s is not there, or not in its place:\n%s", word, text)
		}
		at += next
	}
	for _, line := range []string{"help commands", "help pages", "help quickstart"} {
		h.done(strings.Fields(line)...)
	}
	for _, c := range commands.All() {
		if list := h.done("help", "commands"); !strings.Contains(list, "\n  "+c.Name+" ") {
			t.Fatalf("the list lacks %s:\n%s", c.Name, list)
		}
	}
}

// TestHelpWords: a word that is no page leads to its place. A word that begins a command's own name leads to the command.
func TestHelpWords(t *testing.T) {
	h := newHouse(t)
	for word, says := range map[string]string{
		"quickstart": "quickstart: ten rented boxes in ten minutes",
		"jupyter":    "ssh, scp, rsync, editors\n",
		"NGINX":      "nginx: a gateway behind nginx, Caddy,",
		"price":      "What does idling cost?\n",
		"role":       "Roles\n\n  A role is a name for a set of scopes.",
		"caddy":      "nginx: a gateway behind nginx, Caddy,",
		"ssh":        "`muster ssh --help` explains the command of that name.",
		"cost":       "Usage: muster cost [flags]",
		"gpus":       "gpus: what the lists say about GPUs",
		"ls":         "Usage: muster ls [flags]",
		"token":      "Commands of muster token:",
		"exit code":  "shows what the program writes, and ends with the program's",
		"gpu_hot":    "conditions: each thing that can be wrong",
		"move":       "restore: back from a backup",
		"url":        "muster-agent join --gateway https://new.example:7443 --force",
		"unban":      "nothing ends a ban",
		"copy":       "muster node cp -r gpu-1:/srv/work .",
		"node rm":    "",
	} {
		code, out, errs := h.muster(append([]string{"help"}, strings.Fields(word)...)...)
		if says != "" && (code != 0 || !strings.Contains(out, says)) {
			t.Errorf("help %s: code %d, want %q in\n%s%s", word, code, says, out, errs)
		}
		if says == "" && (code != 2 || !strings.Contains(errs, "\n          muster node retire NAME\n")) {
			t.Errorf("help %s: code %d\n%s%s", word, code, out, errs)
		}
	}
	for _, c := range commands.All() {
		first, _, _ := strings.Cut(c.Name, " ")
		for _, word := range help.Words() {
			if word == first && shortForms[word] == "" {
				t.Errorf("the word %s is never looked up: a command has it", word)
			}
		}
	}
	for word, meant := range map[string]string{"jupiter": "jupyter", "grafanna": "grafana"} {
		if code, _, errs := h.muster("help", word); code != 2 || !strings.Contains(errs, "did you mean muster help "+meant+"?") {
			t.Errorf("help %s: code %d, want %s in\n%s", word, code, meant, errs)
		}
	}
}

// TestCompletionRuns has the real shells complete short forms, groups and flags.
func TestCompletionRuns(t *testing.T) {
	h := newHouse(t)
	bash := h.done("completion", "bash") +
		"\nCOMP_WORDS=($1)\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_muster\nprintf '%s\\n' \"${COMPREPLY[@]}\""
	fish := h.done("completion", "fish") + "\ncomplete -C $argv"
	for typed, want := range map[string]string{
		"muster sta":              "status",
		"muster node d":           "drain",
		"muster --data DIR gpu":   "gpu gpus",
		"muster alert receiver t": "test",
		"muster logs ship d":      "delete",
		"muster ls --sel":         "--selector",
		"muster token ls --sel":   "",
		"muster ssh-config --us":  "",
		"muster ssh gpu-1 --us":   "--user",
		"muster help com":         "commands",
	} {
		for shell, args := range map[string][]string{"bash": {"--norc", "-c", bash, "bash", typed}, "fish": {"--no-config", "-c", fish, typed}} {
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Logf("there is no %s here", shell)
				continue
			}
			run := exec.Command(program, args...)
			run.Env = []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
			out, err := run.Output()
			var got []string
			for line := range strings.Lines(string(out)) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				got = append(got, word)
			}
			slices.Sort(got)
			if strings.TrimSpace(strings.Join(got, " ")) != want || err != nil {
				t.Errorf("%s: %s completes to %q, want %q (%v)", typed, shell, got, want, err)
			}
		}
	}
}
