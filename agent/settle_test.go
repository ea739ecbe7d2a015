package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/command"
	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/internal/service"
	"muster/agent/internal/update"
	"muster/agent/wire"
)

// programs installs scripts as builds, the first one as the good and the current version.
func programs(t *testing.T, scripts ...string) (l service.Layout, builds []string) {
	t.Helper()
	l = service.Layout{Base: t.TempDir()}
	for i, script := range scripts {
		path := filepath.Join(t.TempDir(), "program")
		text := fmt.Appendf(nil, "#!/bin/sh\n# %d\n%s\n", i, strings.ReplaceAll(script, "BASE", l.Base))
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
		build, err := l.Install(path)
		if err != nil {
			t.Fatal(err)
		}
		builds = append(builds, build)
	}
	if err := errors.Join(l.SetCurrent(builds[0]), l.SetGood(builds[0])); err != nil {
		t.Fatal(err)
	}
	return l, builds
}

// outside is a program on a machine whose files are below a folder.
func outside(t *testing.T, out, errs *screen, env ...string) command.Program {
	p := command.Program{Version: "1", Getenv: environment(env...), Stdin: strings.NewReader(""), Stdout: out, Stderr: errs}
	p.System = service.System{Root: t.TempDir(), UID: os.Geteuid(), Getenv: p.Getenv}
	return p
}

func TestSettleNeedsAnAgent(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"settle"}, {"launch"}} {
		var out, errs screen
		p := outside(t, &out, &errs)
		if code := execute(t.Context(), p, append(args, "--state", t.TempDir())); code != 1 || !strings.Contains(errs.String(), "--state") {
			t.Errorf("%s: exit %d, %s", args, code, errs.String())
		}
		if code := execute(t.Context(), p, append(args, "--state", "/", "--transport", "no")); code == 0 {
			t.Errorf("%s: a wrong transport: exit %d", args, code)
		}
		if code := execute(t.Context(), p, append(args, "--help")); code != 0 || !strings.Contains(out.String(), "last good version") {
			t.Errorf("%s: exit %d, %s", args, code, out.String())
		}
	}
}

// TestSettleStopsNoStart: with nothing on trial it says nothing and changes nothing.
func TestSettleStopsNoStart(t *testing.T) {
	t.Parallel()
	l, builds := programs(t, "", "")
	if err := l.SetCurrent(builds[1]); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		var out, errs screen
		code := execute(t.Context(), outside(t, &out, &errs), []string{"settle", "--state", l.Base})
		if code != 0 || out.String()+errs.String() != "" || l.Current() != builds[1] || l.Good() != builds[0] {
			t.Errorf("exit %d, %s%s, current %s", code, out.String(), errs.String(), l.Current())
		}
	}
}

// TestSettleMendsTheLink: where the version that is started is gone from the disk, the good one is started.
func TestSettleMendsTheLink(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"settle", "launch"} {
		l, builds := programs(t, "", "")
		if err := errors.Join(l.SetCurrent(builds[1]), os.RemoveAll(filepath.Dir(l.Version(builds[1])))); err != nil {
			t.Fatal(err)
		}
		var out, errs screen
		p := outside(t, &out, &errs)
		p.System.Exec = func(string, []string, []string) error { return errors.New("a test") }
		execute(t.Context(), p, []string{command, "--state", l.Base})
		if l.Current() != builds[0] {
			t.Errorf("%s: current is %q: %s", command, l.Current(), errs.String())
		}
	}
}

// onTrial puts the second of two builds on trial.
func onTrial(t *testing.T, l service.Layout, builds []string) {
	t.Helper()
	record := `{"last":{"phase":"trial","from":"` + builds[0] + `","to":"` + builds[1] + `","trial":{}}}`
	if err := os.WriteFile(filepath.Join(l.Base, "update.json"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.SetCurrent(builds[1]); err != nil {
		t.Fatal(err)
	}
}

// TestSettleEndsATrialThatFails: each settle counts a start and has the good version guard the trial. The fourth one goes back.
func TestSettleEndsATrialThatFails(t *testing.T) {
	t.Setenv(wire.EnvSupervised, "1")
	l, builds := programs(t, `echo "$* $MUSTER_SUPERVISED" >>BASE/guards`, "")
	onTrial(t, l, builds)
	for start := range 5 {
		var out, errs screen
		code := execute(t.Context(), outside(t, &out, &errs), []string{"settle", "--state", l.Base, "--transport", "direct"})
		if code != 0 || out.String() != "" || (l.Current() == builds[0]) != (start >= 3) {
			t.Errorf("start %d: exit %d, %s%s, current %s", start, code, out.String(), errs.String(), l.Current())
		}
	}
	var guards string
	for deadline := time.Now().Add(time.Minute); strings.Count(guards, "\n") < 3 && time.Now().Before(deadline); {
		raw, _ := os.ReadFile(filepath.Join(l.Base, "guards"))
		guards = string(raw)
		<-time.After(5 * time.Millisecond)
	}
	if guards != strings.Repeat("settle --guard --state "+l.Base+" --transport direct 1\n", 3) {
		t.Errorf("guards were started with %q", guards)
	}
}

// TestGuardEndsWithTheTrial: without a trial it ends at once, and with one when it has ended.
func TestGuardEndsWithTheTrial(t *testing.T) {
	t.Parallel()
	l, builds := programs(t, "", "")
	guard := func() int {
		var out, errs screen
		return execute(t.Context(), outside(t, &out, &errs), []string{"settle", "--guard", "--state", l.Base})
	}
	if code := guard(); code != 0 {
		t.Errorf("exit %d", code)
	}
	onTrial(t, l, builds)
	ended := make(chan int)
	go func() { ended <- guard() }()
	select {
	case code := <-ended:
		t.Errorf("it ended with %d during a trial", code)
	case <-time.After(50 * time.Millisecond):
	}
	os.Remove(filepath.Join(l.Base, "update.json"))
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestLaunchTriesAVersionThreeTimes: what stays starts a version on trial again, and then the one before.
func TestLaunchTriesAVersionThreeTimes(t *testing.T) {
	t.Parallel()
	l, builds := programs(t, `[ "$1" = run ] || exit 0; echo good; exit 4`, "echo new; echo time=of-the-log >&2; echo it breaks >&2; exit 3")
	onTrial(t, l, builds)
	var out, errs screen
	code := execute(t.Context(), outside(t, &out, &errs), []string{"launch", "--stay", "--state", l.Base})
	if code != 1 || out.String() != "new\nnew\nnew\ngood\n" || !strings.Contains(errs.String(), "exit status 4") {
		t.Errorf("exit %d, %q, %s", code, out.String(), errs.String())
	}
	record, err := update.Read(l.Base)
	if err != nil || !strings.HasSuffix(record.Last.Log, "-- standard error:\nit breaks\n") || strings.Count(errs.String(), "it breaks") != 3 {
		t.Errorf("its last words are %q, %v, and the terminal shows\n%s", record.Last.Log, err, errs.String())
	}
}

func TestLaunchBecomesTheCurrentVersion(t *testing.T) {
	t.Parallel()
	l, _ := programs(t, "")
	for failures := range 3 {
		var out, errs screen
		p := outside(t, &out, &errs)
		var calls []string
		p.System.Exec = func(program string, args, _ []string) error {
			calls = append(calls, program+" "+strings.Join(args, " "))
			if len(calls) <= failures {
				return errors.New("exec format error")
			}
			panic("this process is another one now")
		}
		code := func() (code int) {
			defer func() { _ = recover() }()
			return execute(t.Context(), p, []string{"launch", "--state", l.Base, "--", "--no-gpu", "--gateway", "x"})
		}()
		want := l.Program() + " " + l.Program() + " run --no-gpu --gateway x"
		if len(calls) != min(failures+1, 2) || calls[0] != want || (code == 1) != (failures == 2) {
			t.Errorf("%d failures: exit %d, %q, %s", failures, code, calls, errs.String())
		}
	}
}

// TestLaunchStaysDuringATrial: the child has the terminal, and knows that it is started again. What ends with nothing on trial, ends.
func TestLaunchStaysDuringATrial(t *testing.T) {
	t.Parallel()
	l, builds := programs(t, `echo "$MUSTER_KEPT $*"; exit 3`, "")
	var out, errs screen
	code := execute(t.Context(), outside(t, &out, &errs), []string{"launch", "--stay", "--state", l.Base, "--", "--no-gpu"})
	if code != 1 || out.String() != "1 run --no-gpu\n" || !strings.Contains(errs.String(), "exit status 3") || l.Current() != builds[0] {
		t.Errorf("exit %d, %q, %s", code, out.String(), errs.String())
	}
}

// TestLaunchStaysForAnotherVersion: a child that ends because another version is current is followed by that one.
func TestLaunchStaysForAnotherVersion(t *testing.T) {
	t.Parallel()
	l, builds := programs(t, `echo one; ln -sfn "$(cat BASE/next)" BASE/current; exit 0`, "echo two; exit 4")
	if err := os.WriteFile(filepath.Join(l.Base, "next"), []byte("versions/"+builds[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs screen
	code := execute(t.Context(), outside(t, &out, &errs), []string{"launch", "--stay", "--state", l.Base})
	if code != 1 || out.String() != "one\ntwo\n" || !strings.Contains(errs.String(), "exit status 4") {
		t.Errorf("exit %d, %q, %s", code, out.String(), errs.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if code := execute(ctx, outside(t, &out, &errs), []string{"launch", "--stay", "--state", l.Base}); code != 0 {
		t.Errorf("told to stop: exit %d", code)
	}
}

// TestLaunchEndsWithTheInstallation: a child that ends because the agent is removed from the machine is not started again.
func TestLaunchEndsWithTheInstallation(t *testing.T) {
	t.Parallel()
	l, _ := programs(t, `rm -r BASE/versions BASE/current BASE/good; exit 0`)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	var out, errs screen
	if code := execute(ctx, outside(t, &out, &errs), []string{"launch", "--stay", "--state", l.Base}); code != 0 || ctx.Err() != nil {
		t.Errorf("exit %d, %v, %s", code, ctx.Err(), errs.String())
	}
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	l, _ := programs(t, "")
	for _, test := range []struct {
		name string
		env  []string
		kept bool
	}{
		{"by hand", nil, false}, {"the supervisor's", []string{wire.EnvSupervised, "1"}, true}, {"launched", []string{wire.EnvKept, "1"}, true},
		{"systemd's", []string{"NOTIFY_SOCKET", "@muster-test"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, errs screen
			p := outside(t, &out, &errs, test.env...)
			call := ""
			failed := errors.New("no such program")
			p.System.Exec = func(program string, args, environ []string) error {
				call = program + ": " + strings.Join(args, " ")
				return failed
			}
			a := newForeground(p, command.Options{State: l.Base, Way: "auto"}, nil)
			a.flags = []string{"--gateway", "https://g"}
			err := a.follow(t.Context(), errUpdate)
			want := l.GoodProgram() + ": " + l.GoodProgram() + " launch --stay --state " + l.Base + " --transport auto -- --gateway https://g"
			if test.kept && (err != nil || call != "") || !test.kept && (!errors.Is(err, failed) || call != want) {
				t.Errorf("%v, called %q", err, call)
			}
		})
	}
}

// TestSettleIn: an agent in the foreground installs itself once. One that was replaced by an update before hands over to its successor.
func TestSettleIn(t *testing.T) {
	t.Parallel()
	own, err := service.Digest(service.OwnProgram)
	if err != nil {
		t.Fatal(err)
	}
	l, builds := programs(t, "")
	var out, errs screen
	p := outside(t, &out, &errs)
	launched := ""
	p.System.Exec = func(program string, _, _ []string) error { launched = program; return errors.New("no such program") }
	a := newForeground(p, command.Options{State: l.Base, Way: "auto"}, nil)
	record := func(text string) {
		if err := os.WriteFile(filepath.Join(l.Base, "update.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var state identity.State
	a.settleIn(state)
	if l.Current() != builds[0] {
		t.Errorf("without a channel it is %s", l.Current())
	}
	for _, phase := range []string{"committed", "trial"} {
		launched = ""
		record(`{"channel":"stable","last":{"phase":"` + phase + `","from":"` + own + `","to":"` + builds[0] + `"}}`)
		a.settleIn(state)
		if launched != l.GoodProgram() || l.Current() != builds[0] || !strings.Contains(errs.String(), "no such program") {
			t.Errorf("%s: launched %q, current %s, said %s", phase, launched, l.Current(), errs.String())
		}
		if crashes := logfile.Begin(l.Base, "", time.Now()).Report(time.Now()).Crashes; *crashes != 0 {
			t.Errorf("%s: what hands over counts as crashed", phase)
		}
	}
	for what, last := range map[string]string{ // this program is two versions old
		"another update":         `{"phase":"committed","from":"` + strings.Repeat("ab", 32) + `","to":"` + builds[0] + `"}`,
		"one that was refused":   `{"phase":"failed"}`,
		"one that was gone back": `{"phase":"rolled_back","from":"` + builds[0] + `"}`,
	} {
		launched = ""
		record(`{"channel":"stable","replaced":["` + own + `"],"last":` + last + `}`)
		a.settleIn(state)
		if launched != l.GoodProgram() || l.Current() != builds[0] {
			t.Errorf("after %s: launched %q, current %s", what, launched, l.Current())
		}
	}
	launched = ""
	record(`{"channel":"stable","last":{"phase":"rolled_back","from":"` + own + `","to":"` + builds[0] + `"}}`)
	for range 2 {
		a.settleIn(state)
		if launched != "" || l.Current() != own || l.Good() != own {
			t.Errorf("launched %q, current %s, good %s", launched, l.Current(), l.Good())
		}
	}
	fresh := t.TempDir()
	a.State = fresh
	state.Gateway.Channel = "stable"
	a.Getenv = environment(wire.EnvSupervised, "1")
	a.settleIn(state)
	if (service.Layout{Base: fresh}).Current() != "" {
		t.Error("one that is kept has installed itself")
	}
}
