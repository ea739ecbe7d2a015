package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"muster/agent/wire"
)

// userBox is a machine with systemd. A user is logged in to it who may not turn lingering on.
func userBox(t *testing.T) *box {
	b := newBox(t)
	b.uid = 1000
	b.env["HOME"] = "/home/u"
	b.env["USER"] = "u"
	for _, path := range []string{"run/systemd/system", "run/user/1000/systemd/private", "home/u"} {
		b.mkdir(path)
	}
	b.tools = func(call string) ([]byte, error) {
		if strings.HasPrefix(call, "pkcheck") || strings.Contains(call, "enable-linger") {
			return []byte("Not authorized"), errors.New("exit status 1")
		}
		return nil, nil
	}
	return b
}

// TestJoinOfAUserWhoseServicesEnd: if nothing of this user runs on after logout, join and its check say so before the token is sent.
func TestJoinOfAUserWhoseServicesEnd(t *testing.T) {
	t.Parallel()
	b := userBox(t)
	for _, args := range [][]string{{"--check"}, nil} {
		code, out, errs := b.join(append(args, "--token", b.token)...)
		text := out + errs
		if code != 1 || !strings.Contains(text, "no cron runs") || !strings.Contains(text, "Let root run: loginctl enable-linger u") {
			t.Errorf("%v: exit %d\n%s", args, code, text)
		}
		if _, err := os.Stat(b.base); err == nil || len(b.g.Requests(wire.PathRegister)) > 0 {
			t.Errorf("%v: something was made, or the token was sent", args)
		}
	}
	b.mkdir("proc/7")
	if err := os.WriteFile(b.root+"/proc/7/comm", []byte("cron\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := b.join("--check", "--token", b.token)
	const kept = "service     ok    this user's services end at logout (no linger): the built-in supervisor, restarted from cron at boot"
	if code != 0 || !strings.Contains(out, kept) {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, call := range b.calls {
		if strings.Contains(call, "enable-linger") || strings.Contains(call, "systemctl") {
			t.Errorf("a check called %s", call)
		}
	}
}

// TestJoinWithoutAHome: the user of a service may have no home. The advice works, and no token is spent before.
func TestJoinWithoutAHome(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.uid = 1000
	delete(b.env, "HOME")
	for _, args := range [][]string{{"join"}, {"join", "--state", b.base}} {
		code, out, errs := b.call(append(args, "--gateway", b.url, "--token", b.token)...)
		if code != 2 || !strings.Contains(errs, "set HOME to a directory of this user") {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
		}
	}
	b.env["HOME"] = "/nothing" // as /etc/passwd has it for nobody
	if err := os.WriteFile(b.root+"/nothing", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, _ := b.join("--token", b.token)
	if code != 1 || !strings.Contains(out, "/nothing/.config/muster/agent.env cannot be written") ||
		!strings.Contains(out, "or set HOME to a directory") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if len(b.g.Requests(wire.PathRegister)) > 0 {
		t.Error("the token was sent")
	}
	b.env["HOME"] = "/home"
	b.mkdir("home")
	if code, out, errs := b.join("--token", b.token); code != 0 || !strings.Contains(out, "[5/5] online") {
		t.Errorf("as advised: exit %d\n%s%s", code, out, errs)
	}
}
