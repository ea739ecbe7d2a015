package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
)

// TestPushNames: each box gets the name that stands behind it, bound into its token, and its own port.
func TestPushNames(t *testing.T) {
	b := newBoxes(t)
	first := b.box("gpu-1")
	second := b.box("gpu-2")
	third := b.box("fd00__7")
	list := filepath.Join(t.TempDir(), "hosts")
	b.write(list, "# the rack\n\nroot@gpu-2:39467 \t= h100-b  # on the left\r\n  [fd00::7]:22\n")
	code, out, errs := b.push("gpu-1=h100-a", "--hosts", list, "-p", "2222")
	if code != 0 || errs != "" || !strings.HasSuffix(out, "3 machines: 3 joined, 0 failed\n") {
		t.Fatalf("code %d\n%s\n%s", code, out, errs)
	}
	for home, want := range map[string]string{first: "\n--name\nh100-a\n", second: "\n--name\nh100-b\n"} {
		if got := b.read(home, "joined"); !strings.Contains(got, want) {
			t.Errorf("the agent was called with %q, want %q", got, want)
		}
	}
	if got := b.read(third, "joined"); strings.Contains(got, "--name") {
		t.Errorf("the agent without a name was called with %q", got)
	}
	argv := b.read(b.folder, "argv")
	for _, want := range []string{"\n-p\n2222\n-T\n--\ngpu-1\n", "\n-p\n39467\n-T\n--\nroot@gpu-2\n", "\n-p\n22\n-T\n--\nfd00::7\n"} {
		if !strings.Contains(argv, want) {
			t.Errorf("the arguments lack %q:\n%s", want, argv)
		}
	}
	tokens := b.done("token", "ls", "--all", "-o", "json")
	for _, want := range []string{`"node":"h100-a"`, `"node":"h100-b"`} {
		if !strings.Contains(tokens, want) {
			t.Errorf("no token has %s: %s", want, tokens)
		}
	}
}

// TestPushHostsFile: wrong lines are named with their numbers, and then nothing is pushed.
func TestPushHostsFile(t *testing.T) {
	b := newBoxes(t)
	home := b.box("gpu-1")
	list := filepath.Join(t.TempDir(), "hosts")
	b.write(list, "gpu-1\n# fine\n-oProxyCommand=reboot\ngpu-2 gpu-3\ngpu-1\ngpu-4=\n")
	code, _, errs := b.push("--hosts", list)
	for _, want := range []string{"nothing was pushed: in " + list + ", line 3: ",
		"; line 4: ", "; line 5: \"gpu-1\" stands twice", "; line 6: "} {
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("code %d, want %q: %s", code, want, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "joined")); err == nil {
		t.Error("a machine was joined all the same")
	}
	b.write(list, "# nothing\n\n")
	if code, _, errs := b.push("--hosts", list); code != 2 || !strings.Contains(errs, "which machines?") {
		t.Errorf("an empty file: code %d, %s", code, errs)
	}
	b.write(list, strings.Repeat("-x\n", 20))
	if code, _, errs := b.push("--hosts", list); code != 2 || strings.Count(errs, "line ") != 10 || !strings.Contains(errs, "; and more") {
		t.Errorf("many wrong lines: code %d, %s", code, errs)
	}
	var out, said bytes.Buffer
	code = cli.Run(t.Context(), cli.Env{Args: []string{"--data", b.dir, "push", "--hosts", "-"}, Getenv: func(string) string { return "" },
		Stdin: strings.NewReader("gpu-1=a\n"), Stdout: &out, Stderr: &said, Agents: b.agents}, commands.All())
	if code != 0 || !strings.Contains(b.read(home, "joined"), "\n--name\na\n") {
		t.Errorf("from standard input: code %d\n%s\n%s", code, out.String(), said.String())
	}
}

// TestPushNotes: what several machines note is said once, at the end, and what one notes as it comes.
func TestPushNotes(t *testing.T) {
	b := newBoxes(t)
	b.agents = fstest.MapFS{"linux-amd64/muster-agent": {Data: []byte("#!/bin/sh\ncat >/dev/null\n" +
		"echo '[1/1] online'\necho '      note: After a reboot the agent will not start.'\n[ ! -e \"$HOME/own\" ] || echo 'note: its own'\n")}}
	b.box("gpu-1")
	b.write(filepath.Join(b.box("gpu-2"), "own"), "")
	code, out, errs := b.push("gpu-1", "gpu-2")
	if code != 0 || strings.Count(out, "After a reboot") != 1 ||
		!strings.Contains(out, "\nnote: After a reboot the agent will not start. (gpu-") ||
		!strings.Contains(out, "note: its own (gpu-2)\n") || strings.Contains(out, "gpu-1: note") {
		t.Errorf("code %d\n%s\n%s", code, out, errs)
	}
	code, out, errs = b.push("gpu-1")
	if code != 0 || !strings.Contains(out, "\n      note: After a reboot") {
		t.Errorf("one machine: code %d\n%s\n%s", code, out, errs)
	}
}
