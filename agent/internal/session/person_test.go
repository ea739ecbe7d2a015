package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestAsAnotherUser: root's agent runs a program and a shell with the rights of the user that is asked for, and with nothing of its own
// environment. An ordinary user's agent refuses.
func TestAsAnotherUser(t *testing.T) {
	t.Setenv("OF_THE_AGENT", "secret")
	d := newDesk(t)
	secret := filepath.Join(d.home, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if no := d.open(wire.SessionExec, `{"user":"guest","command":["id"]}`).refused(); no.Code != wire.CodeTaskForbidden {
			t.Errorf("%+v", no)
		}
		return
	}
	const show = `id -u; id -g; id -G; pwd; echo "$USER $HOME $OF_THE_AGENT."; cat ` + "SECRET" + ` 2>&1 | grep -o denied; kill -0 $PPID 2>&1 | grep -o ermitted`
	const want = "54321\n54322\n54322 4711\n/\nguest / .\ndenied\nermitted\n"
	command := strings.ReplaceAll(strings.ReplaceAll(show, "SECRET", secret), `"`, `\"`)
	o := d.open(wire.SessionExec, `{"user":"guest","command":["sh","-c","`+command+`"]}`)
	o.ready()
	if out, exit := o.exit(); out != want || exit.Error != "" {
		t.Errorf("a program: %q, %+v", out, exit)
	}
	o = d.open(wire.SessionShell, `{"user":"guest","rows":24,"columns":80,"command":["sh","-c","`+command+`; tty | cut -c1-9; test -w $(tty) && echo its own"]}`)
	o.ready()
	if out, exit := o.exit(); strings.ReplaceAll(out, "\r", "") != want+"/dev/pts/\nits own\n" || exit.Error != "" {
		t.Errorf("a shell: %q, %+v", out, exit)
	}
}
