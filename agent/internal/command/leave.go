package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"muster/agent/flags"
	"muster/agent/internal/account"
	"muster/agent/internal/identity"
	"muster/agent/internal/process"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/internal/workload"
	"muster/agent/wire"
)

const leaveExamples = `  muster-agent leave
  muster-agent leave --force          also where the gateway cannot be told

The gateway retires the node: its certificate is worth nothing from then on, and
its name is free. Then leave removes the service, its settings, the agent's
state and the agent itself, and what a bootstrap script put on this machine. It
names what stays of that, such as the trust in a registry. To come back, join
with a new token.
`

// Leave runs the command leave.
func Leave(ctx context.Context, p Program, args []string) error {
	settingsPath := p.System.SettingsPath()
	settings, err := service.Manager{System: p.System, Settings: settingsPath}.LoadSettings()
	if err != nil {
		settings = service.Settings{} // a damaged file must not stop leave, which removes it
	}
	p.Getenv = settings.Or(p.Getenv)
	o := struct {
		State, Gateway string
		Force          bool
	}{State: p.StatePath()}
	err = p.Flags("leave", "Gives this node back and removes the agent from this machine without a trace.", leaveExamples, stateFlag(""),
		flags.Flag{Name: "gateway", Value: "URL", Usage: "URL of the gateway (default: the one that this node is enrolled with)"},
		flags.Flag{Name: "force", Off: true, Usage: "remove the agent even if the gateway cannot be told"}).Parse(args, &o)
	if err != nil {
		return err
	}
	base, err := filepath.Abs(o.State)
	if err != nil {
		return err
	}
	m := service.Manager{System: p.System, Base: base, Settings: settingsPath}
	if o.State == "" || len(m.Traces()) == 0 {
		fmt.Fprintln(p.Stdout, "no agent is installed here: nothing to do (if it was joined with --state DIR, give that)"+p.AsRoot("leave"))
		return nil
	}
	l := leaving{p, m, o.Gateway}
	if err := l.tell(ctx, o.Force); err != nil {
		return err
	}
	stays, err := l.remove(ctx)
	if err != nil {
		return err
	}
	for _, what := range stays {
		fmt.Fprintf(p.Stdout, "stays: %s\n", what)
	}
	if len(stays) == 0 {
		fmt.Fprintln(p.Stdout, "left: this machine is as it was before")
		return nil
	}
	fmt.Fprintln(p.Stdout, "left: apart from what stays, this machine is as it was before")
	return nil
}

// leaving is one run of leave.
type leaving struct {
	Program
	manager service.Manager
	gateway string // its URL; empty: the one of the identity
}

// remove removes all of muster from the machine, and prints what it removed. It can be interrupted and called again. The bootstrap's files
// go first, because its note of what stays lies in the state directory.
func (l *leaving) remove(ctx context.Context) (stays []string, err error) {
	var removed []string
	made := l.made() // says so by what lies in the state directory
	if l.System.UID == 0 {
		removed, stays, err = l.manager.RemoveBootstrap(ctx)
	}
	stays = append(stays, made...)
	if err == nil {
		var more []string
		more, err = l.manager.Remove(ctx)
		removed = append(removed, more...)
	}
	if err == nil && l.System.UID == 0 && len(removed) > 0 {
		l.manager.RemoveBootstrapFolder()
	}
	for _, path := range removed {
		fmt.Fprintf(l.Stdout, "removed %s\n", path)
	}
	return stays, err
}

// made is what tasks have made on this machine, and what people may still need. leave never removes it.
func (l *leaving) made() (stays []string) {
	accounts := account.Accounts{State: l.manager.Base, Root: l.System.Root, UID: l.System.UID}
	for _, name := range accounts.Names() {
		stays = append(stays, "the account "+name+", which a task has made (userdel "+name+", and remove /etc/sudoers.d/muster-"+name+")")
	}
	stays = append(stays, process.Host{State: l.manager.Base}.Left()...)
	engines, _ := os.ReadDir(filepath.Join(l.manager.Base, workload.EnginesFolder))
	for _, engine := range engines {
		stays = append(stays, fmt.Sprintf("containers that tasks have started, if there are any: %s ps --all --filter label=%s lists them",
			engine.Name(), workload.Label))
	}
	return stays
}

// tell makes the gateway retire the node. It comes first: where the gateway cannot be told, nothing on the machine has changed.
func (l *leaving) tell(ctx context.Context, force bool) error {
	state, err := identity.Read(l.manager.Base)
	if err == nil && state.Current == nil {
		fmt.Fprintln(l.Stdout, "this machine is not enrolled: there is no gateway to tell")
		return nil
	}
	if err == nil {
		if l.gateway == "" { // the last agent may have run with another URL of the gateway than the node joined at
			last, _ := identity.ReadStatus(l.manager.Base)
			l.gateway = state.Gateway.URL
			if last.LastContact != nil && last.NodeID == state.NodeID {
				l.gateway = cmp.Or(last.Gateway, l.gateway)
			}
		}
		err = l.retire(ctx, state)
	}
	if err == nil {
		fmt.Fprintf(l.Stdout, "told %s: node %s is retired\n", l.gateway, state.Name)
		return nil
	}
	if !force { // the gateway would go on counting a node that is only removed here
		return fmt.Errorf("%w\nnothing was removed: try again when the gateway can be reached, or add --force to remove the agent "+
			"all the same", err)
	}
	fmt.Fprintf(l.Stdout, "the gateway was not told (%v): %s\n", err, untold(err, state.Name))
	return nil
}

// untold says what an operator has to do about a node that left without telling the gateway. In an identity conflict the operator must
// not retire the node, because another machine uses the same identity and stays.
func untold(err error, name string) string {
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeIdentityConflict {
		return "another machine uses this identity too, so the node is not retired; an operator gives it back to that machine: " +
			"muster help identity-trouble says how"
	}
	return "an operator should run muster node retire " + name
}

// retire asks the gateway to retire the node. It is no error where the gateway already counts the node as gone.
func (l *leaving) retire(ctx context.Context, state identity.State) error {
	client, err := transport.New(transport.Config{
		Gateway: l.gateway, Version: l.Version, Timeout: l.Limit(transport.DefaultTimeout), Way: transport.Auto,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	err = say(ctx, client, state)
	// What Refresh learns is not saved: the state directory is about to go.
	if identity.StaleTrust(err) { // the gateway's roots or keys have changed since the agent last heard of them
		if next, news, failed := identity.RefreshTrust(ctx, client, state); failed == nil && news {
			err = say(ctx, client, next)
		}
	}
	var refusal *transport.Refusal
	if errors.As(err, &refusal) {
		switch refusal.Code {
		case wire.CodeRetired, wire.CodeRevoked, wire.CodeBanned, wire.CodeSuperseded, wire.CodeUnknownCertificate:
			fmt.Fprintf(l.Stdout, "the gateway has given this node up already (%s)\n", refusal.Code)
			return nil
		}
	}
	return err
}

// say sends the request to leave.
func say(ctx context.Context, client *transport.Client, state identity.State) error {
	id, err := state.Transport()
	if err != nil {
		return err
	}
	client.Use(id)
	return eachGateway(ctx, state, func() error {
		var answer wire.LeaveAnswer
		return client.Call(ctx, wire.LeavePath(state.NodeID), struct{}{}, &answer)
	})
}

// eachGateway calls until one of the gateways that are known has given a verdict, or all were asked: the client goes on to the next one
// itself.
func eachGateway(ctx context.Context, state identity.State, call func() error) (err error) {
	for range 1 + len(state.Gateway.Gateways) {
		err = call()
		var refusal *transport.Refusal
		if err == nil || errors.As(err, &refusal) || ctx.Err() != nil {
			break
		}
	}
	return err
}
