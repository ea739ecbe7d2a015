package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"muster/agent/flags"
	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/internal/update"
	"muster/agent/wire"
)

const (
	callTime  = 8 * time.Second  // of the one call, to whichever gateway: less than service.SettleTime by what the rest takes
	judgeTime = 10 * time.Second // of all that settle does
)

const settleExamples = `  muster-agent settle --state /var/lib/muster-agent

The unit of the agent runs it, from the last good version, before every start.
Where the version that is started is on trial and has failed (it ended too
often, it could not be started, its time is over), settle makes the good version
the current one again. Where nothing is on trial, it does nothing. It always
succeeds, so that it never stops a start.
`

// judge decides what is started next on one state directory.
type judge struct {
	Program
	base string
	way  transport.Way
	log  *slog.Logger
	file *logfile.File // of the log; nil: none

	journal  string           // the program
	patience service.Patience // with an agent that hangs; empty: as the unit has it
}

// Settle runs the command settle.
func Settle(ctx context.Context, p Program, args []string) error {
	var o struct{ Guard bool }
	f := p.Flags("settle", "Decides which version of the agent is started next. For the service that keeps the agent.", settleExamples,
		flags.Flag{Name: "guard", Off: true, Usage: "for its own use: stay until the trial has ended, and end a version that hangs"},
		stateFlag(""), wayFlag())
	j, err := parse(f, args, &o)
	if err != nil {
		return err
	}
	if o.Guard {
		return j.guard(ctx)
	}
	j.settle(ctx, update.Settling{})
	return nil
}

// parse reads the flags of settle or launch: those that they share, and their own. For a flag that is not given, what join was told counts.
func parse(f *Flags, args []string, own any) (judge, error) {
	settings, err := service.Manager{System: f.System, Settings: f.System.SettingsPath()}.LoadSettings()
	if err == nil {
		f.Program.Getenv = settings.Or(f.Program.Getenv)
	}
	o := struct{ State, Transport string }{f.StatePath(), string(transport.Auto)}
	if err := f.Parse(args, &o, own); err != nil {
		return judge{}, err
	}
	base, err := filepath.Abs(o.State)
	if err != nil {
		return judge{}, err
	}
	if o.State == "" || !(service.Layout{Base: base}).Holds() {
		return judge{}, fmt.Errorf("no agent is installed in %s: give --state where it was joined", base)
	}
	parsed, err := transport.ParseWay(o.Transport)
	if err != nil {
		return judge{}, Usagef("--transport: %v", err)
	}
	file := logfile.New(service.Layout{Base: base}.Log())
	log := logfile.NewLogger(slog.LevelInfo, f.Stderr, file)
	return judge{Program: f.Program, base: base, way: parsed, log: log, file: file, journal: "journalctl"}, nil
}

// settle has package update decide, one process at a time, and starts the guard of a trial that goes on.
func (j judge) settle(ctx context.Context, s update.Settling) update.Verdict {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	if j.file != nil {
		defer j.file.Flush() // what is started next takes the place of this process
	}
	free, err := service.SettleLock(ctx, j.base)
	if err != nil {
		j.log.Warn("the version that is started was not looked at", "error", err)
		return update.Verdict{Decision: update.GoOn, Detail: err.Error()}
	}
	defer free()
	s.Base = j.base
	s.Words = func() { j.keepWords(ctx) }
	s.Call = j.call
	s.Logger = j.log
	verdict := update.Settle(ctx, s)
	if update.OnTrial(j.base) != "" && !s.Running {
		if err := service.StartGuard(j.base, string(j.way)); err != nil {
			j.log.Warn("the new version runs without a guard", "error", err)
		}
	}
	return verdict
}

// guard watches the trial that goes on.
func (j judge) guard(ctx context.Context) error {
	return service.Guard{
		Base: j.base,
		Open: func() (string, bool) { build := update.OnTrial(j.base); return build, build != "" },
		Settle: func(ctx context.Context) bool {
			return j.settle(ctx, update.Settling{Running: true}).Decision == update.GoBack
		},
	}.Run(ctx)
}

// call finds out whether the gateway could accept a heartbeat of this node, of any version. A heartbeat would not do: it would look as if
// two agents ran. Two answers count: what the node should run, which is proven, and whether the gateway can write.
func (j judge) call(ctx context.Context) error {
	state, err := identity.Read(j.base)
	if err != nil {
		return err
	}
	if state.Current == nil {
		return errors.New("this machine is not enrolled")
	}
	id, err := state.Transport()
	if err != nil {
		return err
	}
	client, err := transport.New(transport.Config{Gateway: state.Gateway.URL, Version: j.Version, Logger: j.log, Way: j.way})
	if err != nil {
		return err
	}
	defer client.Close()
	client.Use(id)
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	within := callTime
	if len(state.Gateway.Gateways) > 1 { // time for another one
		within /= 2
	}
	return eachGateway(ctx, state, func() error {
		if err := answers(ctx, client, within); err != nil {
			return err
		}
		return writes(ctx, client, within)
	})
}

// answers asks for something that only a node may read. A provable refusal is an answer too, whatever it says of this node: the gateway is
// there. It is none where the gateway says that it has trouble itself.
func answers(ctx context.Context, client *transport.Client, within time.Duration) error {
	_, err := client.Do(ctx, transport.Request{Path: wire.PathRelease, Timeout: within})
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Status < http.StatusInternalServerError && refusal.Status != http.StatusTooManyRequests {
		return nil
	}
	return err
}

// writes asks whether the gateway can write, because one with a full disk goes on to answer what it only reads. Anybody may ask that, so
// the answer need not be proven. It counts only if it says that the gateway cannot: a proxy may keep the path to itself.
func writes(ctx context.Context, client *transport.Client, within time.Duration) error {
	_, err := client.Do(ctx, transport.Request{Path: wire.PathReady, Timeout: within})
	var refusal *transport.Refusal
	var unproven *transport.Unproven
	switch {
	case errors.As(err, &refusal) && refusal.Code != wire.CodeUnavailable, errors.As(err, &unproven) && unproven.Claim != wire.CodeUnavailable:
		return nil
	}
	return err
}
