package giveback

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

const (
	gonePause = 5 * time.Second  // between two looks whether a machine is gone
	goneTime  = 30 * time.Minute // for it to be gone, with the time in which its node may finish
)

// atProvider finds the instances of all accounts, by the nodes that they are. The key is a node's id, or provider and instance id as a node
// has them.
func (g *giveBack) atProvider(ctx context.Context) error {
	accounts, err := cli.Get[providers.List](ctx, g.Session, api.PathProviders, nil)
	if err != nil {
		return err
	}
	g.instances, g.gone = map[string]providers.Instance{}, map[string]string{}
	for _, account := range accounts.Providers {
		list, err := cli.Get[providers.InstanceList](ctx, g.Session, api.At(api.PathInstances, account.Name), nil)
		if err != nil {
			return err
		}
		for _, id := range list.Gone {
			g.gone[id] = account.Name
		}
		for _, i := range list.Instances {
			g.instances[i.Kind+"/"+i.ID] = i
			if i.NodeID != "" {
				g.instances[i.NodeID] = i
			}
		}
	}
	return nil
}

// instanceOf is a node's machine as its company shows it; false: no account has it.
func (g *giveBack) instanceOf(node api.Node) (providers.Instance, bool) {
	if i, found := g.instances[node.ID]; found {
		return i, true
	}
	i, found := g.instances[node.Provider+"/"+node.InstanceID]
	return i, found && node.InstanceID != ""
}

// chosen are the nodes that were named or selected, after the person has seen what each is and costs, and agreed. It always asks.
func (g *giveBack) chosen(ctx context.Context) ([]cli.Target, error) {
	nodes, _, err := g.Targets(ctx, g.Words)
	if err != nil {
		return nil, err
	}
	if err := g.atProvider(ctx); err != nil && g.flags.Destroy {
		return nil, err
	}
	destroyed := 0
	for i, target := range nodes {
		node, err := g.look(ctx, target.ID)
		if err != nil {
			return nil, err
		}
		nodes[i] = cli.Target{ID: node.ID, Name: node.Name}
		if _, found := g.instanceOf(node); found {
			destroyed++
		}
		fmt.Fprintln(g.Stderr, screen.Fold("  "+screen.Printable(node.Name+": "+g.about(node)), g.Screen(), "    "))
	}
	deed := "clean and give back " + screen.Plural(len(nodes), "node")
	if g.flags.Destroy {
		deed += ", and destroy " + screen.Plural(destroyed, "machine")
	}
	return nodes, g.Agree(deed, deed)
}

// about says what a node's machine is, and what becomes of it.
func (g *giveBack) about(node api.Node) string {
	i, found := g.instanceOf(node)
	account := g.goneAt(node)
	text := fmt.Sprintf("%s/%s, %dx %s, %s, %s an hour", i.Provider, i.ID, i.GPUs, screen.Model(i.GPU), screen.OrUnknown(i.State),
		screen.Price(i.PerHour))
	switch {
	case account != "":
		return itsGone(account)
	case found && !g.flags.Destroy:
		return text + "; it stays, and is charged"
	case !found && g.instances == nil:
		return "its machine stays"
	case !found:
		return "no account of muster has its machine, which stays"
	case node.State != wire.StateRetired && node.Status != wire.StatusOnline:
		return text + "; its node is " + node.Status + ", so it is destroyed as it is"
	}
	return text
}

// goneAt is the account that had a node's machine, which is gone; empty: that is not known.
func (g *giveBack) goneAt(node api.Node) string {
	if _, found := g.instanceOf(node); found {
		return ""
	}
	return g.gone[node.ID]
}

func itsGone(account string) string { return "its machine is gone at " + account + " already" }

// isLost is true where a node is not heard, and its machine is to be destroyed or is gone: nobody can clean it, and its disks go with it.
func (g *giveBack) isLost(ctx context.Context, node api.Node) bool {
	if !g.flags.Destroy {
		return false
	}
	now, err := g.look(ctx, node.ID)
	_, found := g.instanceOf(node)
	return err == nil && (found || g.goneAt(node) != "") && now.Status != wire.StatusOnline
}

// destroy ends the machine of a node that was given back, and waits until its company does not show it any more. gone is false where no
// account has it or had it.
func (g *giveBack) destroy(ctx context.Context, f *fate, node api.Node) (gone bool, err error) {
	instance, found := g.instanceOf(node)
	if !found {
		return f.bill == "" || g.goneAt(node) != "", nil
	}
	name := instance.Provider + "/" + instance.ID
	q := providers.LeaseRequest{Provider: instance.Provider, Instance: instance.ID, Act: providers.ActDestroy, End: true}
	_, err = through(ctx, g, func() (providers.Lease, error) {
		return cli.Send[providers.Lease](ctx, g.Session, http.MethodPost, api.PathLeases, q)
	})
	if err != nil && !client.IsNotFound(err) {
		return false, err
	}
	if err == nil {
		f.asked = true
		g.say(node, screen.Printable(name)+" is being destroyed")
	}
	say, began := g.Now().Add(quietAgain), g.Now()
	done, err := g.Poll(ctx, gonePause, goneTime, func() (bool, error) {
		i, err := get[providers.Instance](ctx, g, api.At(api.PathInstance, instance.Provider, instance.ID))
		switch {
		case client.IsNotFound(err):
			return g.absent(ctx, instance)
		case err != nil:
			return false, err
		case i.Lease != nil && i.Lease.State == providers.LeaseEnded:
			return true, nil
		case !g.Now().Before(say):
			g.say(node, screen.Printable(name+" is "+i.State+" there for "+screen.Age(g.Now().Sub(began))+leaseWhy(i.Lease)))
			say = g.Now().Add(quietAgain)
		}
		return false, nil
	})
	if err == nil && !done {
		err = cli.Hinted(name+" is still there after "+screen.Age(goneTime),
			"the gateway goes on asking, and raises an alert: muster lease ls; muster provider plan")
	}
	if err == nil {
		g.say(node, screen.Printable(name)+" is gone")
	}
	return err == nil, err
}

// absent is true if the company's machines were all seen, and this one is none of them. An account that is not there any more is an error:
// then nobody knows.
func (g *giveBack) absent(ctx context.Context, instance providers.Instance) (bool, error) {
	list, err := get[providers.InstanceList](ctx, g, api.At(api.PathInstances, instance.Provider))
	there := slices.ContainsFunc(list.Instances, func(i providers.Instance) bool { return i.ID == instance.ID })
	return err == nil && list.Known && !there, err
}

// leaseWhy is what keeps a lease from its end; empty: nothing is known.
func leaseWhy(l *providers.Lease) string {
	if l == nil || l.Why == "" {
		return ""
	}
	return ": " + l.Why
}
