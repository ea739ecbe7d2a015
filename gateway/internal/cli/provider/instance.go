package provider

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

const (
	stopped    = "stopped"       // a state of an Instance
	startPause = 5 * time.Second // between two looks at a machine that starts
	startTime  = 90 * time.Second
	othersText = "rented by another gateway, which may use it"
)

// instances lists the machines of the accounts named, or of all.
func instances(ctx context.Context, s *cli.Session) error {
	all, err := instancesOf(ctx, s, s.Words)
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(all)
	}
	now := s.Now()
	rows := cli.Rows(all.Instances, func(i providers.Instance) []string { return instanceRow(i, now) })
	if err := s.List(instanceColumns()).Write(rows); err != nil {
		return err
	}
	text := screen.Plural(len(all.Instances), "instance")
	switch {
	case all.SyncedAt == nil && all.Known:
		text += ", and no account: muster provider add KIND --key-file FILE adds one"
	case all.SyncedAt == nil:
		text += "; not every account was seen yet"
	case !all.Known:
		text += ", as of " + screen.Ago(now, *all.SyncedAt) + ": muster provider ls says why not of now"
	default:
		text += ", seen " + screen.Ago(now, *all.SyncedAt)
	}
	s.Printf("%s\n", text)
	return nil
}

// instancesOf gets the machines of accounts, of all if none is named. The list is as old and as well known as the worst of them.
func instancesOf(ctx context.Context, s *cli.Session, accounts []string) (providers.InstanceList, error) {
	all := providers.InstanceList{Known: true, Instances: []providers.Instance{}}
	if len(accounts) == 0 {
		l, err := cli.Get[providers.List](ctx, s, api.PathProviders, api.ListFilter{Tenant: s.Flags.Text("tenant")})
		if err != nil {
			return all, err
		}
		for _, p := range l.Providers {
			accounts = append(accounts, p.Name)
		}
	}
	for i, name := range accounts {
		one, err := cli.Get[providers.InstanceList](ctx, s, api.At(api.PathInstances, name), nil)
		if err != nil {
			return all, err
		}
		all.Instances = append(all.Instances, one.Instances...)
		all.Known = all.Known && one.Known
		never := i > 0 && all.SyncedAt == nil
		if i == 0 || !never && (one.SyncedAt == nil || one.SyncedAt.Before(*all.SyncedAt)) {
			all.SyncedAt = one.SyncedAt
		}
	}
	return all, nil
}

func instanceColumns() []screen.Column {
	return []screen.Column{{Name: "INSTANCE", Least: longID, Most: longID}, {Name: "THERE"}, {Name: "NODE", Rank: 1, Least: 8, Most: 40},
		{Name: "HERE", Rank: 2}, {Name: "GPU", Rank: 3, Least: 8, Most: 30}, {Name: "PRICE"}, {Name: "LEASE", Rank: 4},
		{Name: "NAME", Most: 40, Wide: true}, {Name: "WORD", Most: 24, Wide: true}, {Name: "REGION", Most: 30, Wide: true},
		{Name: "HOST", Most: 24, Wide: true}, {Name: "STOPPED", Wide: true}, {Name: "STARTED", Wide: true}, {Name: "SSH", Most: 60, Wide: true},
		{Name: "RENTAL", Wide: true}, {Name: "TENANT", Most: 24, Wide: true}, {Name: "WHY", Most: 60, Wide: true}}
}

func instanceRow(i providers.Instance, now time.Time) []string {
	return []string{reference(i.Provider, i.ID), i.State, i.Node, here(i), gpus(i), screen.Price(i.PerHour), leaseText(i.Lease, now), i.Name,
		i.RawState, i.Region, i.Host, screen.Price(i.Storage), screen.Since(now, i.StartedAt), i.SSH, i.Rental, i.Tenant,
		cmp.Or(rejoinText(i.Rejoin), i.Why)}
}

// rejoinText says how far a machine is that was to start again; "": there is nothing to say.
func rejoinText(r *providers.Rejoin) string {
	switch {
	case r == nil || r.State == providers.RejoinJoined:
		return ""
	case r.State == providers.RejoinFailed:
		return "it did not join again: " + r.Why
	}
	return strings.TrimSuffix("it starts again with a new start script: "+r.Why, ": ")
}

// here is the status of the node of an instance.
func here(i providers.Instance) string {
	if i.Foreign {
		return "foreign"
	}
	return screen.OrUnknown(i.Status)
}

func gpus(i providers.Instance) string {
	if i.GPUs == 0 && i.GPU == "" {
		return screen.Unknown
	}
	return fmt.Sprintf("%dx %s", i.GPUs, screen.Model(i.GPU))
}

// leaseText is the end of a lease, and what is done then.
func leaseText(l *providers.Lease, now time.Time) string {
	if l == nil {
		return screen.Unknown
	}
	if l.State != providers.LeaseLive {
		return screen.OrUnknown(l.State)
	}
	return screen.Printable(endOf(*l, now) + ", " + l.Act)
}

// actOn makes a command that does something with instances: it shows them, asks, and does it to one after the other.
func actOn(act, verb string) func(context.Context, *cli.Session) error {
	return func(ctx context.Context, s *cli.Session) error {
		picked, err := pick(ctx, s)
		if err != nil {
			return err
		}
		for _, i := range picked {
			fmt.Fprintln(s.Stderr, listed(s, about(i)))
		}
		deed := verb + " " + screen.Plural(len(picked), "machine")
		if err := s.Agree(deed, deed); err != nil {
			return err
		}
		var targets []cli.Target
		for _, i := range picked {
			targets = append(targets, cli.Target{ID: api.At(api.PathInstance, i.Provider, i.ID), Name: i.Provider + "/" + i.ID})
		}
		return s.OnEach(ctx, targets, func(t cli.Target) (string, error) {
			i, err := cli.Send[providers.Instance](ctx, s, http.MethodPost, t.ID, providers.InstanceAct{Act: act})
			if err == nil && act == providers.ActStart {
				i, err = started(ctx, s, t.ID, i)
			}
			switch {
			case err != nil:
				return "", err
			case s.Form == cli.FormJSON:
				return "", s.WriteJSON(i)
			}
			return did(i), nil
		})
	}
}

// started waits until a machine is seen to start, since lists may lag. A company may take the order and leave it stopped.
func started(ctx context.Context, s *cli.Session, path string, i providers.Instance) (providers.Instance, error) {
	_, err := s.Poll(ctx, startPause, startTime, func() (done bool, err error) {
		if i.State != stopped {
			return true, nil
		}
		i, err = cli.Get[providers.Instance](ctx, s, path, nil)
		return false, err
	})
	if err == nil && i.State == stopped {
		err = cli.Hinted("it was asked to start, and it is stopped there still",
			"its GPUs may be somebody else's now: muster rent finds others; muster provider instances shows whether it comes up after all")
	}
	return i, err
}

// did says how far an act is.
func did(i providers.Instance) string {
	text := "it is " + screen.OrUnknown(i.State) + " there"
	switch {
	case i.Lease == nil || i.Lease.State == providers.LeaseLive:
		return text
	case i.Lease.State == providers.LeaseDraining:
		text += "; its node takes no new work, and has time to finish; then: " + i.Lease.Act
	case i.Lease.State == providers.LeaseEnding:
		text += "; " + i.Lease.Act + " is asked for, and is looked at until it is done"
	default:
		text += "; " + i.Lease.Act + " is done"
	}
	if i.Lease.Act == providers.ActStop {
		text += "; its disk is charged on, " + screen.Price(i.Storage) + " an hour, until muster provider destroy " + i.Provider + "/" + i.ID
	}
	return text
}

// about says in one line what a machine is, so that nobody ends another one than they mean.
func about(i providers.Instance) string {
	text := i.Provider + "/" + i.ID + ": " + gpus(i) + ", " + screen.OrUnknown(i.State) + ", " + screen.Price(i.PerHour) + " an hour"
	if i.Node != "" {
		return text + ", node " + i.Node + " (" + i.Status + ")"
	}
	if i.Foreign {
		return text + ", " + othersText
	}
	return text + ", no node"
}

// listed is one line of a list of machines, on a screen perhaps on several lines.
func listed(s *cli.Session, text string) string {
	return screen.Fold("  "+screen.Printable(text), s.Screen(), "    ")
}

// pick gets the instances that the words name: ACCOUNT/INSTANCE, or the name of a node.
func pick(ctx context.Context, s *cli.Session) ([]providers.Instance, error) {
	var picked []providers.Instance
	var all *providers.InstanceList
	for _, word := range s.Words {
		account, id, whole, err := cli.Instance(word)
		if err != nil {
			return nil, err
		}
		if whole {
			i, err := cli.Get[providers.Instance](ctx, s, api.At(api.PathInstance, account, id), nil)
			if err != nil {
				return nil, err
			}
			picked = append(picked, i)
			continue
		}
		if all == nil {
			l, err := instancesOf(ctx, s, nil)
			if err != nil {
				return nil, err
			}
			all = &l
		}
		at := slices.IndexFunc(all.Instances, func(i providers.Instance) bool { return i.NodeID != "" && (i.Node == word || i.NodeID == word) })
		if at < 0 {
			return nil, cli.Hinted(fmt.Sprintf("no account has an instance that is the node %q", word),
				"name it as ACCOUNT/INSTANCE; muster provider instances lists them")
		}
		picked = append(picked, all.Instances[at])
	}
	for n, i := range picked {
		if slices.ContainsFunc(picked[:n], func(o providers.Instance) bool { return o.Provider == i.Provider && o.ID == i.ID }) {
			return nil, cli.Twice("the instance", i.Provider+"/"+i.ID)
		}
	}
	return picked, nil
}
