package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/transport/gatewaytest"
)

// mounted runs a shell script in a mount namespace of its own. Its arguments are the command line of join, for the agent on the box.
func (b *box) mounted(script string, args ...string) (code int, out string) {
	b.t.Helper()
	if os.Getuid() != 0 {
		gatewaytest.Lacking(b.t, "not run: only root can mount")
	}
	if said, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		gatewaytest.Lacking(b.t, "not run: no mount namespaces here: "+string(said))
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	words := append([]string{"-m", "sh", "-c", script, os.Args[0], "join", "--gateway", b.url, "--name", "gpu-1", "--no-gpu", "--interval",
		"200ms"}, args...)
	cmd := exec.CommandContext(ctx, "unshare", words...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), asAgent + "=" + b.root, "HOME=/root", "MUSTER_TOKEN=" + b.token, "BOX=" + b.root}
	raw, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		b.t.Fatalf("%v\n%s", err, raw)
	}
	return cmd.ProcessState.ExitCode(), string(raw)
}

// TestUnfitPlacesCostNoToken: --check and join find a place that cannot be used before the credential is used, and leave nothing
// behind. The advice that they give works.
func TestUnfitPlacesCostNoToken(t *testing.T) {
	t.Parallel()
	const advised = "mount -t tmpfs none /opt; "
	for _, test := range []struct {
		name, mounts, state, want string
		advice                    bool
	}{
		{"noexec", "mount -t tmpfs -o noexec none $BOX/place", "place/state", "is mounted noexec", true},
		{"read-only", "mount -t tmpfs -o ro none $BOX/place", "place/state", "read-only file system", true},
		{"full", "mount -t tmpfs -o size=8m none $BOX/place", "place/state", "only 8 MiB are free", true},
		{"a link to nothing", "ln -s /nowhere/at/all $BOX/place/state", "place/state", "is a link to something that is not there", true},
		{"a file in the way", "touch $BOX/place/state", "place/state", "is no directory", true},
		{"somebody's folder", "mkdir -m 755 $BOX/place/state; touch $BOX/place/state/thesis", "place/state", "holds other files", true},
		{"the folder of the settings", "mount -t tmpfs -o ro none $BOX/etc", "place/state", "/etc/muster/agent.env cannot be written", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.mkdir("place")
			b.mkdir("etc")
			state := filepath.Join(b.root, test.state)
			setup := advised + test.mounts + " || exit 99; before=$(find $BOX | sort); "
			left := `code=$?; [ "$(find $BOX | sort)" = "$before" ] || { find $BOX; exit 98; }; exit $code`
			for _, check := range []string{"--check", ""} {
				code, out := b.mounted(setup+`"$0" "$@" `+check+"; "+left, "--state", state)
				if code != 1 || !strings.Contains(out, test.want) || strings.Contains(out, "--state /opt/muster-agent") != test.advice {
					t.Errorf("%s: exit %d\n%s", check, code, out)
				}
				if b.clear(); len(b.g.Requests("/nodes/register")) != 0 {
					t.Errorf("%s: the token was used\n%s", check, out)
				}
			}
			if !test.advice {
				return
			}
			code, out := b.mounted(setup+`"$0" "$@" && "$0" leave --state /opt/muster-agent`, "--state", "/opt/muster-agent")
			if code != 0 || !strings.Contains(out, "[5/5] online") || !strings.Contains(out, "left: this machine is as it was before") {
				t.Errorf("as advised: exit %d\n%s", code, out)
			}
		})
	}
}

// clear removes what a case has put there.
func (b *box) clear() {
	if err := os.RemoveAll(filepath.Join(b.root, "place", "state")); err != nil {
		b.t.Fatal(err)
	}
}

// TestMountedVolume: join takes over an empty volume that is there already, and leave gives it back.
func TestMountedVolume(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	state := filepath.Join(b.root, "volume")
	b.mkdir("volume")
	script := "mount -t tmpfs -o mode=0755,uid=1000,gid=1000 none $BOX/volume && mkdir $BOX/volume/lost+found && " +
		`"$0" "$@" && stat -c 'mode %a of %u' $BOX/volume && ` +
		`"$0" leave --state $BOX/volume && stat -c 'mode %a of %u' $BOX/volume && ls -A $BOX/volume`
	code, out := b.mounted(script, "--state", state)
	if code != 0 || !regexp.MustCompile(`(?s)online.*mode 700 of 0.*mode 755 of 1000\s+lost\+found\n$`).MatchString(out) {
		t.Errorf("exit %d\n%s", code, out)
	}
}
