package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"muster/agent/flags"
	"muster/agent/internal/command"
	"muster/agent/internal/logfile"
	"muster/agent/internal/service"
)

const superviseExamples = `  muster-agent supervise                start it and come back at once
  muster-agent supervise --foreground   stay, as the last line of an entrypoint

Where there is no init system, join starts this by itself and has it started at
boot. A second one on the same state directory does nothing and says so.
`

// supervise is the command supervise. Without a flag it starts itself again, detached, and ends.
func supervise(ctx context.Context, p command.Program, args []string) error {
	o := struct {
		State, Settings      string
		Foreground, Detached bool
	}{State: p.StatePath(), Settings: p.System.SettingsPath()}
	err := p.Flags("supervise", "Keeps the agent running where there is no init system: restarts it whenever it ends.", superviseExamples,
		flags.Flag{Name: "state", Value: "DIR", Usage: "state DIR of an agent that was joined"},
		flags.Flag{Name: "settings", Value: "FILE", Usage: "FILE with the agent's settings, as join wrote it"},
		flags.Flag{Name: "foreground", Off: true, Usage: "stay in the foreground"},
		flags.Flag{Name: "detached", Off: true, Usage: "for its own use: this is the process in the background"}).Parse(args, &o)
	if err != nil {
		return err
	}
	base, err := filepath.Abs(o.State)
	if err != nil {
		return err
	}
	if o.State == "" || !(service.Layout{Base: base}).Holds() {
		return fmt.Errorf("no agent is installed in %s: join first (%s join --help), or give --state where it was joined%s",
			base, p.Named(base), p.AsRoot("supervise"))
	}
	if !o.Foreground && !o.Detached { // a person or a boot hook called: come back at once
		line, err := service.Manager{System: p.System, Base: base, Settings: o.Settings}.StartSupervisor()
		if err == nil {
			fmt.Fprintln(p.Stdout, line)
		}
		return err
	}
	return keep(ctx, p, base, p.System.Root+o.Settings, o.Detached)
}

// keep is the supervisor itself. A detached one says how its start went to the process that started it, because it has no screen.
func keep(ctx context.Context, p command.Program, base, settings string, detached bool) error {
	file := logfile.New(service.Layout{Base: base}.SupervisorLog())
	k := service.Keeper{Base: base, Settings: settings}
	k.Logger = logfile.NewLogger(slog.LevelInfo, p.Stderr, file)
	say := func(line string) { fmt.Fprintln(p.Stdout, line) }
	if detached {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // whoever started it need not wait for its line, and does not end it so
		say = func(line string) { fmt.Fprintln(p.Stdout, service.ReadyPrefix+line) }
	}
	k.Ready = func() { say("supervisor started") }
	err := k.Run(ctx)
	var running service.SupervisedError
	if errors.As(err, &running) { // no failure: boot hooks call this again and again
		say(running.Error())
		return nil
	}
	if err != nil && detached {
		fmt.Fprintln(p.Stdout, err)
	}
	return err
}
