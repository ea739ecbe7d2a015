package gateway

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
)

const (
	serviceSteps   = 6
	readyTime      = 30 * time.Second
	readyPause     = 100 * time.Millisecond
	leastSystemd   = 247 // LoadCredential=
	programPath    = "/usr/local/bin/muster"
	programBefore  = programPath + ".before"
	systemdRunning = "/run/systemd/system" // sd_booted(3)
)

// ServiceCommands run the gateway as a service of systemd.
func ServiceCommands() []cli.Command {
	return []cli.Command{
		{Name: "service install", Args: "[FLAGS OF SERVE]", Most: -1, Run: serviceInstall, ServeFlags: true, NoGateway: true,
			Summary: "run the gateway as a service of systemd, or upgrade it",
			Text: "Takes the flags of muster serve; those that are not given stay as they are in " + datadir.ServiceSettings +
				". It makes the user " + datadir.ServiceUser + ", copies this program to " + programPath +
				", puts the master key into " + datadir.ServiceKey + ", where only root and systemd read it, writes the unit " +
				cli.ServiceUnit + ", starts it and waits until it is ready.\n\n" +
				"The same command again changes nothing. Given by a newer muster it replaces the program and restarts: nodes do not " +
				"notice. The program before stays as " + programBefore + ". If the new one does not get ready, all is put back " +
				"as it was. An older muster than the database's is refused. It needs root and systemd 247.",
			Examples: []string{"sudo ./muster service install --public-url https://gw.example:7443",
				"sudo ./muster service install --listen :443 --tls-cert /etc/muster/chain.pem --tls-key /etc/muster/key.pem",
				"sudo ./muster service install"}},
		{Name: "service uninstall", Run: serviceUninstall, NoGateway: true,
			Summary: "stop and remove the gateway's service, but for its data",
			Text: "Removes the unit, the program and the settings. " +
				"The data and the master key stay where they are, and it says where that is.",
			Examples: []string{"sudo muster service uninstall"}},
	}
}

// service is one call of service install or uninstall.
type service struct {
	*cli.Session
	cli.Machine
	step    int
	changed bool     // something that the running gateway does not have yet
	schema  int      // of the database, before anything was changed
	ran     bool     // a gateway ran then
	before  []former // what was replaced
}

func (s *service) say(format string, args ...any) {
	s.step++
	s.Printf("[%d/%d] %s\n", s.step, serviceSteps, fmt.Sprintf(format, args...))
}

// serviceInstall checks first, and changes the machine only when all checks passed. Each step can be done again, so the same command
// also finishes what was cut off.
func serviceInstall(ctx context.Context, session *cli.Session) error {
	s := &service{Session: session, Machine: session.Machine}
	if s.UID() != 0 && s.exists(systemdRunning) {
		return cli.Hinted("only root may install a service",
			s.Sudo("")+"; without root, run the gateway by hand: "+strings.Join(append([]string{"muster serve"}, s.Words...), " "))
	}
	settings, err := s.settings()
	if err != nil {
		return err
	}
	if err := s.suited(ctx, settings.flags); err != nil {
		return err
	}
	uid, gid, err := s.user(ctx, settings.flags.Data)
	if err != nil {
		return err
	}
	if err := s.masterKey(settings); err != nil {
		return err
	}
	if err := s.place(ctx, settings, uid, gid); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return s.putBack(ctx, settings.flags, err)
	}
	if err := s.ready(ctx, settings.flags); err != nil {
		return s.putBack(ctx, settings.flags, err)
	}
	s.next(settings.flags)
	return nil
}

// byHand is the command that runs the same gateway without a service.
func (s *service) byHand(f cli.ServeFlags) string {
	line := "muster serve"
	if !slices.ContainsFunc(s.Words, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return strings.HasPrefix(arg, "-") && name == "data"
	}) {
		line += " --data " + paste.Quote(f.Data)
	}
	for _, arg := range s.Words {
		line += " " + paste.Quote(arg)
	}
	return line
}

// suited refuses a machine on which the service could not run, before anything is changed.
func (s *service) suited(ctx context.Context, f cli.ServeFlags) error {
	byHand := s.byHand(f)
	if err := datadir.Check(s.at(f.Data)); err != nil {
		return err
	}
	if !s.exists(systemdRunning) {
		return cli.Hinted("systemd does not run on this machine",
			"run the gateway by hand, or from this machine's own init system: "+byHand)
	}
	said, err := s.Command(ctx, "systemctl", "--version")
	if err != nil {
		return err
	}
	fields := strings.Fields(said)
	n := 0
	if len(fields) > 1 {
		n, _ = strconv.Atoi(fields[1])
	}
	if n == 0 {
		return fmt.Errorf("systemctl --version says %.80q", said)
	}
	if n < leastSystemd {
		return cli.Hinted(fmt.Sprintf("systemd %d is too old: credentials came with %d", n, leastSystemd),
			"run the gateway by hand: "+byHand)
	}
	state, err := s.UnitState(ctx)
	if err != nil {
		return err
	}
	if state["ActiveState"] != "active" && s.locked(filepath.Join(f.Data, datadir.LockFile)) {
		return cli.Hinted("a gateway that was started by hand serves "+f.Data, "stop that one first; the service takes its data over")
	}
	if err := s.fits(ctx, f.Data); err != nil {
		return err
	}
	s.ran = state["ActiveState"] == "active"
	what := "not installed yet"
	if s.exists(datadir.ServiceUnit) {
		what = state["ActiveState"]
	}
	s.say("systemd %d; %s: %s", n, cli.ServiceUnit, what)
	return nil
}

// reload has systemd read a unit that was changed. A daemon-reload can take the GPUs away from running containers, and a unit that systemd
// has not read yet needs none: it is done only if systemd asks for it.
func (s *service) reload(ctx context.Context) (state map[string]string, err error) {
	state, err = s.UnitState(ctx)
	if err == nil && state["NeedDaemonReload"] == "yes" {
		_, err = s.Command(ctx, "systemctl", "daemon-reload")
	}
	return state, err
}

// start starts the service, or restarts it when it runs something older.
func (s *service) start(ctx context.Context) error {
	state, err := s.reload(ctx)
	if err != nil {
		return err
	}
	if _, err := s.Command(ctx, "systemctl", "enable", "--no-reload", cli.ServiceUnit); err != nil {
		return err
	}
	active := state["ActiveState"] == "active"
	if active && !s.changed && s.runs(state["MainPID"]) {
		s.say("%s is enabled and runs this program: nothing to do", cli.ServiceUnit)
		return nil
	}
	verb := "start"
	done := "started"
	if active || state["ActiveState"] == "activating" {
		verb = "restart"
		done = "restarted; nodes come back by themselves"
	}
	if _, err := s.Command(ctx, "systemctl", verb, cli.ServiceUnit); err != nil {
		return s.journal(ctx, fmt.Errorf("%s did not start: %w", cli.ServiceUnit, err))
	}
	s.say("%s is enabled and %s", cli.ServiceUnit, done)
	return nil
}

// runs tells whether a process runs the installed program. A program that was replaced by hand is another file.
func (s *service) runs(pid string) bool {
	return s.same("/proc/"+pid+"/exe", programPath)
}

// journal adds the service's last words to an error.
func (s *service) journal(ctx context.Context, err error) error {
	said, _ := s.Command(ctx, "journalctl", "--unit", cli.ServiceUnit, "--lines", "8", "--no-pager", "--output", "cat")
	for line := range strings.Lines(said) {
		fmt.Fprintf(s.Stderr, "  %s\n", screen.Printable(strings.TrimRight(line, "\r\n")))
	}
	return cli.Hinted(err.Error(),
		"journalctl -u "+cli.ServiceUnit+" has the whole story; correct "+datadir.ServiceSettings+
			" or the flags, and give the command again")
}

// ready waits until the gateway serves.
func (s *service) ready(ctx context.Context, f cli.ServeFlags) error {
	begun := s.Now()
	if err := s.awaitReady(ctx, f); err != nil {
		return s.journal(ctx, err)
	}
	s.say("%s: ready after %.1f s", localURL(f.Listen)+wire.PathReady, s.Now().Sub(begun).Seconds())
	return nil
}

func (s *service) awaitReady(ctx context.Context, f cli.ServeFlags) error {
	address := localURL(f.Listen) + wire.PathReady
	var answer error
	ready, err := s.Poll(ctx, readyPause, readyTime, func() (bool, error) {
		answer = s.Ready(ctx, address)
		return answer == nil, nil
	})
	if err != nil {
		return err
	}
	if !ready {
		return fmt.Errorf("%s is not ready after %s: %w", address, readyTime, answer)
	}
	return nil
}

// next says what to do with a gateway that serves.
func (s *service) next(f cli.ServeFlags) {
	muster := s.installedProgram()
	if s.Getenv("SUDO_USER") != "" {
		muster = "sudo " + muster
	}
	s.Printf("\nThe gateway serves %s. Its log: journalctl -u %s\n\n", f.PublicURL, cli.ServiceUnit)
	screen.Pairs(s.Stdout, 0, [][]string{{"  " + muster + " token create --tenant TENANT",
		"the first token, with the command that joins a machine"},
		{"  " + muster + " account create NAME --scope '*'", "an API token, to reach the gateway from elsewhere"}})
}

// installedProgram is how a person calls the installed program: by its name, where PATH finds it under that name. Under sudo, PATH is
// the one that sudo gives.
func (s *service) installedProgram() string {
	folders := filepath.SplitList(s.Getenv("PATH"))
	if len(folders) == 0 {
		return filepath.Base(programPath)
	}
	for _, folder := range folders {
		if path := filepath.Join(folder, filepath.Base(programPath)); s.exists(path) {
			if s.same(path, programPath) {
				return filepath.Base(programPath)
			}
			break // another one comes first
		}
	}
	return programPath
}

func serviceUninstall(ctx context.Context, session *cli.Session) error {
	s := &service{Session: session, Machine: session.Machine}
	if s.UID() != 0 {
		return cli.Hinted("only root may remove a service", s.Sudo(""))
	}
	data := datadir.Default(s.Getenv, 0, s.Root)
	if !s.exists(datadir.ServiceUnit) && !s.exists(datadir.ServiceSettings) {
		fmt.Fprintln(s.Stdout, "There is no service of the gateway here: nothing to do.")
		return s.kept(data)
	}
	if s.exists(datadir.ServiceUnit) && s.exists(systemdRunning) {
		for _, args := range [][]string{{"stop", cli.ServiceUnit}, {"disable", "--no-reload", cli.ServiceUnit}} {
			if _, err := s.Command(ctx, "systemctl", args...); err != nil {
				return fmt.Errorf("nothing was removed: %w", err)
			}
		}
	}
	var failed error
	for _, path := range []string{datadir.ServiceUnit, programPath, programBefore, datadir.ServiceSettings} {
		failed = errors.Join(failed, s.remove(path))
	}
	if failed != nil {
		return failed
	}
	if s.exists(systemdRunning) {
		_, _ = s.Command(ctx, "systemctl", "reset-failed", cli.ServiceUnit) // mostly there is no failure to forget
	}
	fmt.Fprintf(s.Stdout, "%s is stopped; the unit, %s and %s are removed.\n", cli.ServiceUnit, programPath, datadir.ServiceSettings)
	return s.kept(data)
}

// kept says what an uninstall leaves, and how to use it.
func (s *service) kept(data string) error {
	if s.exists(data) {
		s.Printf("Kept: the data in %s, of user %s\n", data, datadir.ServiceUser)
	}
	if s.exists(datadir.ServiceKey) {
		fmt.Fprintf(s.Stdout, "Kept: the master key in %s, without which the data's secrets cannot be opened\n", datadir.ServiceKey)
		s.Printf("To use both again: muster service install --data %s, or by hand: muster serve --data %s --master-key-file %s\n", data,
			data, datadir.ServiceKey)
	}
	return nil
}
