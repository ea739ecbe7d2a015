package cli_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/datadir"
)

// desk is a machine on which somebody gives a command, in a directory of its own.
type desk struct {
	root    string
	uid     int
	program string
	env     map[string]string
	state   string // of the service's unit; "": systemctl fails
}

func (d desk) run(t *testing.T, args ...string) (code int, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = cli.Run(t.Context(), cli.Env{Args: args, Getenv: func(name string) string { return d.env[name] }, Program: d.program,
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Machine: cli.Machine{Root: d.root, UID: func() int { return d.uid }, Command: d.command}}, commands.All())
	return code, stderr.String()
}

func (d desk) command(context.Context, string, ...string) (string, error) {
	if d.state == "" {
		return "", errors.New("no systemctl here")
	}
	return "ActiveState=" + d.state + "\n", nil
}

// TestWhoAnswers: where no gateway answers, the hint says how to start the one that was set up here, and who may do that.
func TestWhoAnswers(t *testing.T) {
	bare := t.TempDir()
	home := t.TempDir()
	installed := t.TempDir()
	byHand := t.TempDir()
	elsewhere := t.TempDir()
	own := t.TempDir()
	data := filepath.Join(installed, "data")
	unit := filepath.Join(installed, "etc/systemd/system/muster.service")
	if err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o755), os.WriteFile(unit, []byte("ReadWritePaths="+data+"\n"), 0o600),
		os.MkdirAll(filepath.Join(byHand, "var/lib/muster"), 0o700), os.MkdirAll(filepath.Join(own, "muster"), 0o700),
		os.WriteFile(filepath.Join(own, "muster", datadir.Database), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	user := map[string]string{"HOME": home}
	for name, c := range map[string]struct {
		desk
		args string
		want string
	}{
		"a service that is stopped":   {desk{root: installed, state: "inactive"}, "node ls", "hint: systemctl start muster\n"},
		"a machine without systemctl": {desk{root: installed}, "node ls", "hint: systemctl start muster\n"},
		"a service that is starting":  {desk{root: installed, state: "activating"}, "node ls", "journalctl -u muster -n 20"},
		"the service, named":          {desk{root: installed, state: "failed"}, "node ls --data " + data, "hint: systemctl start muster\n"},
		"another gateway": {
			desk{root: installed, state: "inactive"}, "node ls --data " + elsewhere, "hint: muster serve --data " + elsewhere +
				" starts it",
		},
		"nobody's machine": {
			desk{root: bare, uid: 1000, env: user}, "node ls", "hint: muster serve --data " + home + "/.local/share/muster starts it",
		},
		"a program not in PATH": {
			desk{root: bare, uid: 1000, env: user, program: "/opt/muster-1"}, "node ls", "hint: /opt/muster-1 serve --data ",
		},
		"a user beside the service": {
			desk{root: installed, uid: 1000, env: user}, "token create --label a=b",
			"hint: the gateway of this machine is root's to reach: sudo muster token create --label a=b\n",
		},
		"a user beside root's gateway": {
			desk{root: byHand, uid: 1000, env: user, program: "/opt/muster"}, "node ls", "sudo /opt/muster node ls\n",
		},
		"a user with a gateway of their own": {
			desk{root: byHand, uid: 1000, env: map[string]string{"XDG_DATA_HOME": own}}, "node ls", "hint: muster serve --data " + own +
				"/muster --master-key-file FILE starts it", // its key is not beside the database
		},
		"a user whose environment names it": {
			desk{root: byHand, uid: 1000, env: map[string]string{"MUSTER_DATA": elsewhere}}, "node ls", "hint: muster serve --data " +
				elsewhere + " starts it",
		},
		"a user who names the service": {
			desk{root: installed, uid: 1000, env: user}, "node ls --data=" + data,
			"hint: sudo systemctl start muster, and then sudo muster --data " + data + " node ls\n",
		},
		"a user's own that is away": {
			desk{root: installed, uid: 1000, env: user}, "node ls --data " + elsewhere, "hint: muster serve --data " + elsewhere,
		},
	} {
		code, errs := c.run(t, strings.Fields(c.args)...)
		if code != 1 || !strings.Contains(errs, "no gateway answers at ") || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, want %q in\n%s", name, code, c.want, errs)
		}
	}
	for name, c := range map[string]struct {
		desk
		args []string
	}{
		"no home": {desk{root: bare, uid: 1000}, []string{"node", "ls"}}, "nothing": {desk{root: bare},
			[]string{"--data", "", "node", "ls"}},
	} {
		if code, errs := c.run(t, c.args...); code != 2 || !strings.Contains(errs, "name the gateway's directory") {
			t.Errorf("%s: code %d\n%s", name, code, errs)
		}
	}
}

// TestCutOff: a gateway that ends before it answers is named as such, and the next step.
func TestCutOff(t *testing.T) {
	d := desk{root: t.TempDir()}
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "muster.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	code, errs := d.run(t, "--data", dir, "node", "ls")
	errs = strings.Join(strings.Fields(errs), " ")
	if code != 1 || !strings.Contains(errs, "the gateway ended the connection before it answered") || !strings.Contains(errs, "ask again") {
		t.Errorf("code %d: %s", code, errs)
	}
}

// TestNamedToken: a token that has a name asks for none.
func TestNamedToken(t *testing.T) {
	out := newHouse(t).done("token", "create", "--name", "boxy")
	if !strings.Contains(out, "On the machine that joins:") || strings.Contains(out, "Add join flags") {
		t.Errorf("got:\n%s", out)
	}
}

// TestSudoHidesTokens: a hint shows a command for root in full, without the secret in it.
func TestSudoHidesTokens(t *testing.T) {
	h := newHouse(t)
	token, _, _ := strings.Cut(h.done("token", "create"), "\n")
	public := token[:strings.LastIndex(token, "_")]
	d := desk{root: t.TempDir(), uid: 1000, env: map[string]string{"HOME": t.TempDir()}}
	if err := os.MkdirAll(filepath.Join(d.root, "var/lib/muster"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, errs := d.run(t, "token", "revoke", token, "it's")
	if strings.Contains(errs, token) || !strings.Contains(errs, "sudo muster token revoke "+public+` 'it'\''s'`) {
		t.Errorf("got %s", errs)
	}
}

// TestHintsLeadOn: a command in a hint names the program and the gateway as this call did.
func TestHintsLeadOn(t *testing.T) {
	h := newHouse(t)
	d := desk{root: t.TempDir(), program: "/opt/muster"}
	for _, c := range []struct{ args, want string }{
		{"--data DIR node show nope", "/opt/muster --data DIR node ls "},
		{"node label --data DIR nope", "hint: write tier=sovereign"},
		{"--data DIR nod ls", "did you mean /opt/muster --data DIR node ls?"},
		{"--data DIR service instal", "did you mean /opt/muster service install?"},
		{"--data DIR node wait nope --timeout 1s", "hint: /opt/muster --data DIR node ls --all shows"},
		{"--data DIR node drain -l tier=nope", "hint: /opt/muster --data DIR node ls -o wide shows all nodes with their labels"},
		{"--data DIR node ls --uses 3", "hint: /opt/muster node ls --help shows"},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", h.dir))
		if _, errs := d.run(t, args...); !strings.Contains(errs, strings.ReplaceAll(c.want, "DIR", h.dir)) {
			t.Errorf("%s: want %q in\n%s", c.args, c.want, errs)
		}
	}
}

// TestProgram: the name is enough where PATH leads to this very program.
func TestProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	same := t.TempDir()
	other := t.TempDir()
	none := t.TempDir()
	err = errors.Join(os.Symlink(self, filepath.Join(same, "muster")), os.WriteFile(filepath.Join(other, "muster"), nil, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": self, same: "muster", none + ":" + same: "muster", none: self, other + ":" + same: self} {
		if got := cli.Program(func(string) string { return path }); got != want {
			t.Errorf("PATH=%s: %s, want %s", path, got, want)
		}
	}
}
