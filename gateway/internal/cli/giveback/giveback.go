// Package giveback has the command that gives machines back: cleaned, retired, and on request destroyed at their company.
package giveback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/work"
	"muster/gateway/internal/paste"
)

const (
	waitPause     = time.Second      // between two looks at a task or a node
	returnsAtOnce = 8                // nodes that are cleaned at the same time
	stepTime      = 20 * time.Minute // for one step on a node, until it counts as failed
	leavingTime   = 2 * time.Minute  // for a node to retire itself after its agent is gone
	quietTime     = 5 * time.Second  // after which a step that the node has not taken is said to wait
	quietAgain    = 30 * time.Second // after which that is said again
)

// Commands returns the command node return.
func Commands() []cli.Command {
	return []cli.Command{{Name: "node return", Args: "NAME...", Most: -1,
		Flags: []string{"selector", "remove-home", "force", "destroy", "yes"}, Run: cli.With(nodeReturn),
		Says: map[string]string{
			"force": "retire also nodes that could not be cleaned, as when they are switched off; that is then no failure",
		},
		Summary: "clean machines, remove the agent, and retire the nodes",
		Text: "Each node is drained; then its workloads are stopped, the users that muster made are removed, and the agent with all that it " +
			"put on the machine, logins to registries included; then the node is retired. What could not be done is said, and the node is " +
			"kept: the same command goes on where it was. It shows the nodes and what their machines cost, and asks unless --yes is given. The " +
			"last lines are what still has to be destroyed at the provider.\n\nWith --destroy the gateway also destroys the machines, where it " +
			"has an account with their company (muster provider ls), and the command waits until they are gone, also through a restart of the " +
			"gateway. A node that is not heard cannot be cleaned: its machine is destroyed as it is, and one whose machine is gone is only " +
			"retired. One that is heard and could not be cleaned keeps its machine.",
		Examples: []string{"muster node return vast-h100-39467543", "muster node return -l tier=spot --yes",
			"muster node return gpu-7 --force --yes", "muster node return -l batch=x --destroy"}}}
}

// giveBack is one call of node return.
type giveBack struct {
	*cli.Session
	flags returnFlags
	// instances are those of all accounts, by the nodes that they are; nil: this account may not see them.
	instances map[string]providers.Instance
	gone      map[string]string // nodes whose machines are gone, by id: the account that had each

	mu     sync.Mutex
	failed bool
	away   string // the trouble that was last told
}

// returnFlags are those of node return.
type returnFlags struct{ RemoveHome, Force, Destroy bool }

func nodeReturn(ctx context.Context, s *cli.Session, flags returnFlags) error {
	g := &giveBack{Session: s, flags: flags}
	nodes, err := g.chosen(ctx)
	if err != nil {
		return err
	}
	all := g.all(ctx, nodes)
	left := g.left(all, ctx.Err() != nil)
	switch {
	case ctx.Err() != nil:
		return s.Left(left)
	case left != "":
		fmt.Fprint(s.Stdout, s.PastedText(left))
	}
	if g.failed {
		return cli.ErrReported
	}
	return nil
}

func (g *giveBack) all(ctx context.Context, nodes []cli.Target) []*fate {
	all := make([]*fate, len(nodes))
	cli.AtOnce(len(nodes), returnsAtOnce, func(i int) {
		all[i] = &fate{Target: nodes[i]}
		if ctx.Err() != nil {
			return
		}
		all[i].begun = true
		if err := g.one(ctx, all[i]); err != nil && ctx.Err() == nil {
			g.trouble(ctx, nodes[i].Name, err)
		}
	})
	return all
}

// one gives one node back. Each step looks at how things are, so a second call does what is left.
func (g *giveBack) one(ctx context.Context, f *fate) error {
	node, err := g.look(ctx, f.ID)
	if err != nil {
		return err
	}
	if node.State == wire.StateRetired {
		g.say(node, "is retired already")
		return g.end(ctx, f, node)
	}
	unclean := g.clean(ctx, node)
	if now, err := g.look(ctx, f.ID); unclean != nil && err == nil && now.State == wire.StateRetired {
		g.say(node, "was given back by somebody else meanwhile")
		return g.end(ctx, f, node)
	}
	if unclean == nil {
		unclean = g.leaves(ctx, node)
	}
	if unclean != nil && (ctx.Err() != nil || !g.flags.Force && !g.isLost(ctx, node)) {
		return unclean
	}
	if unclean != nil {
		if err := g.move(ctx, node, "retire"); err != nil {
			return err
		}
	}
	did := "retired"
	if account := g.goneAt(node); unclean != nil && account != "" {
		did += ": " + screen.Printable(itsGone(account))
	} else if unclean != nil { // no failure: --force or --destroy asks for just this
		why, _ := g.Explain(ctx, unclean)
		did += ", not cleaned: " + screen.Printable(why)
	}
	g.say(node, did)
	return g.end(ctx, f, node)
}

// end destroys the machine of a node that is retired, where that is asked for, and else notes what is still charged.
func (g *giveBack) end(ctx context.Context, f *fate, node api.Node) (err error) {
	g.bill(f, node)
	if g.flags.Destroy {
		f.isOver, err = g.destroy(ctx, f, node)
	}
	return err
}

const bringBack = "its machine was not cleaned: bring it back and give the same command again, or retire it as it is with --force"

// clean removes from the machine what muster brought. A node that is not heard from cannot be cleaned.
func (g *giveBack) clean(ctx context.Context, node api.Node) error {
	if node.State == wire.StateActive {
		if err := g.move(ctx, node, "drain"); err != nil {
			return err
		}
		g.say(node, "drained")
	}
	if node.Status != wire.StatusOnline {
		return cli.Hinted("it is "+node.Status, bringBack)
	}
	for _, step := range g.steps() {
		if err := g.do(ctx, node, step); err != nil {
			return err
		}
	}
	return nil
}

// step is one task of a return.
type step struct {
	kind   string
	params any
	said   string
}

// steps are what is done on a node. Logins to registries go with the agent: it keeps those of tasks for no longer than the task, and
// removes the one that a bootstrap script made.
func (g *giveBack) steps() []step {
	return []step{
		{wire.TaskWorkloadStop, wire.WorkloadStop{All: true}, "workloads stopped"},
		{wire.TaskDeprovisionUser, wire.DeprovisionUser{All: true, RemoveHome: g.flags.RemoveHome}, "users removed"},
		{wire.TaskAgentUninstall, wire.AgentUninstall{}, "agent removes itself"},
	}
}

// do runs one step on a node, and waits for its end.
func (g *giveBack) do(ctx context.Context, node api.Node, s step) error {
	params, err := json.Marshal(s.params)
	if err != nil {
		return err
	}
	q := api.NewTask{ID: wire.NewTaskID(), Node: node.ID, Type: s.kind, Params: params}
	task, err := through(ctx, g, func() (api.Task, error) { return work.Queue(ctx, g.Session, nil, q, stepTime) })
	if err != nil {
		return err
	}
	say := g.Now().Add(quietTime)
	done, err := g.Poll(ctx, waitPause, stepTime+time.Minute, func() (bool, error) {
		now, err := get[api.Task](ctx, g, api.At(api.PathTask, task.ID))
		if err == nil {
			task = now
		}
		if err != nil || wire.TaskEnded(task.Status) {
			return true, err
		}
		if node, err = g.look(ctx, node.ID); err == nil && task.ClaimedAt == nil && !g.Now().Before(say) {
			g.say(node, "has not taken "+s.kind+" yet, and was heard "+heard(node, g.Now())+"; waiting until it does, or counts as stale"+
				staleIn(node, g.Now()))
			say = g.Now().Add(quietAgain)
		}
		return node.Status != wire.StatusOnline && node.State != wire.StateRetired, err
	})
	switch {
	case err != nil:
		return err
	case done && !wire.TaskEnded(task.Status):
		return cli.Hinted("it is "+node.Status+" since "+s.kind+" was asked for", bringBack)
	case !done:
		return cli.Hinted(fmt.Sprintf("%s is still %s after %s", s.kind, task.Status, screen.Age(stepTime)),
			"muster task show "+task.ID+" says more; then give the same command again")
	case task.Status != wire.TaskCompleted:
		return cli.Hinted(fmt.Sprintf("%s: %s %s", s.kind, task.Status, task.Error), "muster task show "+task.ID+
			" says more; mend it and give the same command again")
	}
	g.say(node, s.said)
	return nil
}

// leaves waits for a node to retire itself, which its agent does before it removes itself.
func (g *giveBack) leaves(ctx context.Context, node api.Node) error {
	say := g.Now().Add(quietTime)
	done, err := g.Poll(ctx, waitPause, leavingTime, func() (bool, error) {
		now, err := g.look(ctx, node.ID)
		if err == nil && now.State != wire.StateRetired && !g.Now().Before(say) {
			g.say(node, "waiting for its agent to say that it leaves, "+screen.Age(leavingTime)+" at most")
			say = g.Now().Add(quietAgain)
		}
		return now.State == wire.StateRetired, err
	})
	if err != nil || done {
		return err
	}
	return cli.Hinted("its agent did not say that it leaves, so it is perhaps still there", "look at the agent's log on the machine; "+
		"muster-agent leave --force removes it there; then: muster node retire "+paste.Quote(node.Name))
}

// move moves a node as a verb says. A node that is in that state already stays there.
func (g *giveBack) move(ctx context.Context, node api.Node, verb string) error {
	_, err := through(ctx, g, func() (api.Node, error) {
		return cli.Send[api.Node](ctx, g.Session, "POST", api.At(api.PathNode, node.ID)+"/"+verb, nil)
	})
	return err
}

func (g *giveBack) look(ctx context.Context, id string) (api.Node, error) {
	return get[api.Node](ctx, g, api.At(api.PathNode, id))
}

func get[T any](ctx context.Context, g *giveBack, path string) (T, error) {
	return through(ctx, g, func() (T, error) { return cli.Get[T](ctx, g.Session, path, nil) })
}

// through goes on when the gateway starts anew meanwhile. What it asks for may come twice.
func through[T any](ctx context.Context, g *giveBack, ask func() (T, error)) (T, error) {
	answer, err := cli.Through(ctx, g.Session, waitPause, g.tellAway, ask)
	if err == nil {
		g.tellAway("")
	}
	return answer, err
}

// tellAway says why the gateway does not answer, once for all nodes; empty: it answers.
func (g *giveBack) tellAway(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why != "" && why != g.away {
		g.Say(why)
	}
	g.away = why
}

func (g *giveBack) say(node api.Node, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprint(g.Stdout, g.PastedText(screen.Fold(screen.Printable(node.Name+": "+what), g.Screen(), "  ")+"\n"))
}

// heard is how long ago a node was heard.
func heard(node api.Node, now time.Time) string {
	switch {
	case node.LastSeen == nil:
		return "never"
	case node.Unheard:
		return screen.Ago(now, *node.LastSeen) + ", before the gateway's start"
	}
	return screen.Ago(now, *node.LastSeen)
}

// staleIn is when a node counts as stale that is not heard any more; empty: nobody knows.
func staleIn(node api.Node, now time.Time) string {
	if node.LastSeen == nil || node.Unheard || node.IntervalSeconds == nil {
		return ""
	}
	end := node.LastSeen.Add(time.Duration(3 * *node.IntervalSeconds * float64(time.Second)))
	if !now.Before(end) {
		return ""
	}
	return " " + screen.When(now, end)
}

// trouble tells what went wrong, and makes the command fail.
func (g *giveBack) trouble(ctx context.Context, name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed = true
	if !errors.Is(err, context.Canceled) {
		g.Trouble(ctx, name, err)
	}
}
