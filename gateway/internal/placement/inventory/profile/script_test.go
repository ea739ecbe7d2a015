package profile_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/profile"
)

// TestScriptBuiltIn: what cloud-init does for a built-in profile, a script does, with the agent that it is given.
func TestScriptBuiltIn(t *testing.T) {
	t.Parallel()
	for _, p := range profile.BuiltIn() {
		text, err := profile.Script(p)
		if err != nil || (text == "") != (p.CloudConfig == "") {
			t.Fatalf("%s: %q, %v", p.Name, text, err)
		}
		if text == "" {
			continue
		}
		for _, want := range []string{"cat >'/etc/muster/profiles/" + p.Name + "/etc/default/grub.d/60-muster-profile.cfg'", " iommu=pt",
			`"$1" profile apply ` + p.Name + " && cp -R /etc/muster/profiles/" + p.Name + "/etc / && update-grub\n} || exit", " install -y '"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the script lacks %q:\n%s", p.Name, want, text)
			}
		}
		if strings.Contains(text, "/current/muster-agent") {
			t.Errorf("%s: it needs an agent that is not there yet:\n%s", p.Name, text)
		}
	}
}

// TestScriptRuns runs a script: files as they stand there, and commands of all forms.
func TestScriptRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := `#cloud-config
# A comment.
write_files:
  # Of the first.
  - path: ` + dir + `/deep/one
    permissions: '0600'
    owner: root:root
    content: |
      $HOME "quoted" 'single' \n
        deeper

      # no comment
  - path: ` + dir + `/two
    content: one line
runcmd:
- /var/lib/muster-agent/current/muster-agent hello $HOME >` + dir + `/out &&
  echo more >>` + dir + `/out
- [touch, "` + dir + `/a b", ` + dir + `/c]
- 'echo quoted >>` + dir + `/out'
`
	text, err := profile.Script(api.Profile{Name: "p", CloudConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	run := func(text string) ([]byte, error) {
		path := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.Command("sh", "-eu", path, "echo")
		command.Env = []string{"HOME=/home/x", "PATH=" + os.Getenv("PATH")}
		return command.CombinedOutput()
	}
	if out, err := run(text); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	for name, want := range map[string]string{"deep/one": "$HOME \"quoted\" 'single' \\n\n  deeper\n\n# no comment\n", "two": "one line\n",
		"out": "hello /home/x\nmore\nquoted\n", "a b": "", "c": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if is, err := os.Stat(filepath.Join(dir, "deep/one")); err != nil || is.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", is, err)
	}
	failing, err := profile.Script(api.Profile{Name: "p", CloudConfig: "#cloud-config\nruncmd:\n- false && true\n- touch " + dir + "/never\n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(failing); err == nil {
		t.Error("a command failed, and the script goes on")
	}
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("a command failed, and the next ran")
	}
}

// TestScriptRefuses what it does not know, as a whole.
func TestScriptRefuses(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"another key":          "users: [a]\n",
		"a key twice":          "runcmd:\n- a\nruncmd:\n- b\n",
		"a tab":                "runcmd:\n-\ta\n",
		"no list":              "runcmd: a\n",
		"a folded text":        "runcmd:\n- >\n  a\n",
		"an anchor":            "runcmd:\n- &a b\n",
		"quotes inside":        "runcmd:\n- 'a''b'\n",
		"a package's option":   "packages: [-y]\n",
		"a hostile package":    "packages: ['a;b']\n",
		"a relative path":      "write_files:\n- path: a\n",
		"a path that climbs":   "write_files:\n- path: /a/../b\n",
		"no path":              "write_files:\n- content: a\n",
		"an encoding":          "write_files:\n- path: /a\n  encoding: b64\n",
		"another owner":        "write_files:\n- path: /a\n  owner: ann:ann\n",
		"a mode":               "write_files:\n- path: /a\n  permissions: u+x\n",
		"an item out of line":  "runcmd:\n  - a\n - b\n",
		"no item":              "runcmd:\n  a\n",
		"the script's end":     "runcmd:\n- echo END_OF_PROFILE_FILE\n",
		"a comment at its end": "runcmd:\n- echo a # b\n",
	} {
		text, err := profile.Script(api.Profile{Name: "p", CloudConfig: "#cloud-config\n" + config})
		var refused *wire.ErrorDetail
		if !errors.As(err, &refused) || refused.Code != wire.CodeBadRequest || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func FuzzScript(f *testing.F) {
	for _, p := range profile.BuiltIn() {
		f.Add(p.CloudConfig)
	}
	f.Add("#cloud-config\nruncmd: [a, 'b']\nwrite_files:\n- path: /a\n  content: |\n\n    x\n")
	f.Add("runcmd:\n\n- a\n   b\n")
	f.Fuzz(func(t *testing.T, config string) {
		text, err := profile.Script(api.Profile{Name: "p", CloudConfig: config})
		if err == nil && strings.Contains(text, "END_OF_PROFILE_FILE\n") != strings.Contains(text, "\ncat >'/") {
			t.Errorf("a file without its end:\n%s", text)
		}
	})
}
