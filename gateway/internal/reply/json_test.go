package reply_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"muster/gateway/internal/reply"
)

// trapped is text that runs trap wherever a shell takes it for more than text.
func trapped(trap string) []string {
	return []string{
		"#!/bin/sh\nset -eu\numask 077\nx=$(" + trap + ")\n" + trap + "\n\t`" + trap + "` \\\n" + trap + " # '\"\n{ main \"$@\"; }\n",
		"$(" + trap + ")", "`" + trap + "`", ";" + trap + ";", "|" + trap + "|", "&" + trap + "&", "\n" + trap + "\n", "\r\n" + trap + "\r\n",
		"'\n" + trap + "\n'", "\"\n" + trap + "\n\"", `\"` + "\n" + trap + "\n" + `\"`, `\` + "\n" + trap, `\\"; ` + trap + `; "\\`,
		"<(" + trap + ")", ">" + trap + ".out", "<<x\n" + trap + "\nx\n",
		"${x:=$(" + trap + ")}", "$((`" + trap + "`))", "=(" + trap + ")", "{a,b}; " + trap, "} " + trap + " {", "(" + trap + ")", "!" + trap,
		"* ? [a-z] ~ # ^", "\\u0024(" + trap + ")",
		"\u2028" + trap + "\u2029", "\x00\x01\x1b[31m\x7f", "größer", "$'\\x24(" + trap + ")'", "a[$(" + trap + ")]=1",
	}
}

// shells are those that are here. With CI set all must be.
func shells(t *testing.T) (found [][]string) {
	for _, shell := range [][]string{{"bash"}, {"dash"}, {"sh"}, {"bash", "--posix"}, {"zsh"}, {"ksh"}, {"mksh"}, {"busybox", "sh"}} {
		path, err := exec.LookPath(shell[0])
		switch {
		case err == nil:
			found = append(found, append([]string{path}, shell[1:]...))
		case os.Getenv("CI") != "":
			t.Errorf("%s is not installed", shell[0])
		default:
			t.Logf("not tried: %s is not installed here", shell[0])
		}
	}
	return found
}

// fed is what became of a text that a shell was fed: its complaints with a trace of all that it took for a command, and the files that
// are there now.
type fed struct {
	status int
	trace  string
	files  []string
}

// feed pipes a text into a shell that has no programs but a trap.
func feed(t *testing.T, shell []string, text func(trap string) []byte) fed {
	t.Helper()
	dir := t.TempDir()
	trap := filepath.Join(dir, "trap")
	if err := os.WriteFile(trap, []byte("#!/bin/sh\n: >"+dir+"/ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(shell[0], append(shell[1:], "-x")...)
	command.Dir = dir
	command.Env = []string{"PATH=" + dir, "LC_ALL=C"}
	command.Stdin = strings.NewReader(string(text(trap)))
	out, _ := command.CombinedOutput()
	f := fed{status: command.ProcessState.ExitCode(), trace: string(out)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		f.files = append(f.files, e.Name())
	}
	return f
}

type withHint struct {
	Hint   string            `json:"hint"`
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Script string            `json:"script"`
	List   []map[string]any  `json:"list"`
	None   *int              `json:"none"`
	Empty  struct{}          `json:"empty"`
}

func hostile(trap, text string) withHint {
	return withHint{Hint: "add format=script to the URL", Name: text, Labels: map[string]string{text: text, "a": text + trap}, Script: text,
		List: []map[string]any{{"x": text, "y": 1.5, "z": true}, {}}}
}

// TestJSONIntoAShell: whoever pipes an answer into a root shell runs nothing, whatever stands in it, and is told by the shell's own
// complaint what to do.
func TestJSONIntoAShell(t *testing.T) {
	for _, shell := range shells(t) {
		zsh := filepath.Base(shell[0]) == "zsh" // complains of brackets first
		name := strings.Join(append([]string{filepath.Base(shell[0])}, shell[1:]...), " ")
		raw := func(trap string) []byte { return []byte(`{"script":"$(` + trap + `)"}`) }
		if f := feed(t, shell, raw); len(f.files) != 2 {
			t.Fatalf("%s: the trap does not work: %+v", name, f)
		}
		for i := range trapped("") {
			f := feed(t, shell, func(trap string) []byte { return reply.Inert(hostile(trap, trapped(trap)[i])) })
			commands := len(regexp.MustCompile(`(?m)^\+`).FindAllString(f.trace, -1))
			told := zsh || commands == 1 && strings.Contains(f.trace, "add format=script to the URL,: ")
			if f.status == 0 || len(f.files) != 1 || commands > 1 || !told {
				t.Errorf("%s, inert %q: exit %d, files %q, %d commands\n%s", name, trapped("TRAP")[i], f.status, f.files, commands, f.trace)
			}
			f = feed(t, shell, func(trap string) []byte { return reply.JSON(hostile(trap, trapped(trap)[i])) })
			if f.status == 0 || len(f.files) != 1 {
				t.Errorf("%s, JSON %q: exit %d, files %q\n%s", name, trapped("TRAP")[i], f.status, f.files, f.trace)
			}
		}
	}
}

// TestInert: the same JSON, on one line, and in its strings nothing that means something to a shell.
func TestInert(t *testing.T) {
	for _, text := range trapped("/tmp/trap") {
		checkInert(t, text)
	}
	for want, got := range map[string][]byte{
		`{"a":"b\u0027\u0024\u0028c\u0029\u000a", "d":[1, 2]}`:             reply.Inert(map[string]any{"a": "b'$(c)\n", "d": []int{1, 2}}),
		`"it's \u00245, \u0060a\u0060 \u003cb\u003e \u0026 (c); \\\u0024"`: reply.JSON("it's $5, `a` <b> & (c); \\$"),
	} {
		if string(got) != want+"\n" {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func checkInert(t *testing.T, text string) {
	t.Helper()
	for _, encode := range []func(any) []byte{reply.Inert, reply.JSON} {
		body := encode(hostile("", text))
		var got, want withHint
		plain, err := json.Marshal(hostile("", text))
		if err == nil {
			err = json.Unmarshal(plain, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %+v, %v", text, got, err)
		}
		if at := strings.IndexAny(string(body), "$`\n"); at != len(body)-1 {
			t.Errorf("%q: %q stands at %d", text, body[at], at)
		}
	}
	for _, s := range regexp.MustCompile(`"[^"]*"`).FindAllString(string(reply.Inert(hostile("", text))), -1) {
		inner := regexp.MustCompile(`\\u[0-9a-f]{4}`).ReplaceAllString(s[1:len(s)-1], "")
		if at := strings.IndexAny(inner, "$`;|&<>()'\"\\!#*?[]{}~^\n\t\r"); at >= 0 {
			t.Errorf("%q: %q stands raw in %s", text, inner[at], s)
		}
	}
}

func FuzzInert(f *testing.F) {
	for _, s := range trapped("trap") {
		f.Add(s)
	}
	f.Fuzz(checkInert)
}
