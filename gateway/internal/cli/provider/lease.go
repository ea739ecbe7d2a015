package provider

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"muster/agent/flags"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func acts() []string { return []string{providers.ActStop, providers.ActDestroy, providers.ActKeep} }

func leaseList(ctx context.Context, s *cli.Session, f providers.LeaseFilter) error {
	columns := []screen.Column{{Name: "INSTANCE", Least: longID, Most: longID}, {Name: "NODE", Rank: 1, Least: 8, Most: 40}, {Name: "STATE"},
		{Name: "ENDS"}, {Name: "THEN"}, {Name: "OWNER", Rank: 2, Most: 30}, {Name: "WHY", Most: 60, Below: true},
		{Name: "IDLE END", Wide: true}, {Name: "TRIES", Wide: true}, {Name: "TENANT", Most: 24, Wide: true}, {Name: "CREATED", Wide: true},
		{Name: "RENTAL", Wide: true}}
	return cli.Show(ctx, s, http.MethodGet, api.PathLeases, f, func(l providers.LeaseList) {
		now := s.Now()
		_ = s.List(columns).Write(cli.Rows(l.Leases, func(one providers.Lease) []string { return leaseRow(one, now) }))
		if len(l.Leases) == 0 {
			s.Say("muster lease set NODE 8h puts a machine under a lease; what muster rents has one by itself")
		}
	})
}

func leaseRow(l providers.Lease, now time.Time) []string {
	ends := endOf(l, now)
	if l.EndedAt != nil {
		ends = screen.Ago(now, *l.EndedAt)
	}
	return []string{reference(l.Provider, l.Instance), l.Node, l.State, ends, l.Act, l.Owner, l.Why, seconds(l.IdleSeconds),
		strconv.Itoa(l.Tries), l.Tenant, screen.Ago(now, l.CreatedAt), l.Rental}
}

// endOf is when a lease ends. Its end is acted on about a minute after it.
func endOf(l providers.Lease, now time.Time) string {
	if l.State == providers.LeaseLive && l.Act != providers.ActKeep && !now.Before(l.EndsAt) {
		return "now"
	}
	return screen.When(now, l.EndsAt)
}

func seconds(n *int64) string {
	if n == nil {
		return screen.Unknown
	}
	return screen.Age(time.Duration(*n) * time.Second)
}

// leaseFlags are those of the commands that change leases.
type leaseFlags struct {
	Act     string
	IdleEnd time.Duration `flag:"idle-end,seconds"`
}

// leaseSet puts machines under a lease of so long from now.
func leaseSet(ctx context.Context, s *cli.Session, o leaseFlags) error {
	change, err := o.request(s)
	if err != nil {
		return err
	}
	return changeLeases(ctx, s, func(n int) providers.LeaseRequest {
		change.TTLSeconds = n
		return change
	})
}

// leaseExtend moves the ends of leases, and changes nothing else: that takes no more than the scope to spend.
func leaseExtend(ctx context.Context, s *cli.Session) error {
	return changeLeases(ctx, s, func(n int) providers.LeaseRequest { return providers.LeaseRequest{AddSeconds: n} })
}

// changeLeases sends a request for each machine. The last word is a time.
func changeLeases(ctx context.Context, s *cli.Session, change func(seconds int) providers.LeaseRequest) error {
	last := len(s.Words) - 1
	length, err := flags.ParseDuration(s.Words[last])
	if err != nil {
		return cli.Usagef("write muster "+s.Name+" NODE 8h", "%s", err)
	}
	if length < time.Second || length%time.Second != 0 {
		return cli.Usagef("write muster "+s.Name+" NODE 8h", "%q is no time", s.Words[last])
	}
	return sendLeases(ctx, s, s.Words[:last], change(int(length/time.Second)))
}

func (o leaseFlags) request(s *cli.Session) (q providers.LeaseRequest, err error) {
	q.Act, err = s.Flags.OneOf("act", "", acts()...)
	if o.IdleEnd > 0 {
		n := int(o.IdleEnd / time.Second)
		q.IdleSeconds = &n
	}
	return q, err
}

func sendLeases(ctx context.Context, s *cli.Session, names []string, change providers.LeaseRequest) error {
	for _, name := range names {
		if _, _, _, err := cli.Instance(name); err != nil {
			return err
		}
	}
	return s.OnEach(ctx, cli.Named(names), func(t cli.Target) (string, error) {
		q := change
		if account, id, whole, _ := cli.Instance(t.ID); whole {
			q.Provider, q.Instance = account, id
		} else {
			q.Node = t.ID
		}
		l, err := cli.Send[providers.Lease](ctx, s, http.MethodPost, api.PathLeases, q)
		switch {
		case err != nil:
			return "", err
		case s.Form == cli.FormJSON:
			return "", s.WriteJSON(l)
		case l.State != providers.LeaseLive:
			return "its lease is " + l.State + "; then: " + l.Act, nil
		}
		text := "its lease ends at " + screen.Stamp(&l.EndsAt) + ", " + screen.When(s.Now(), l.EndsAt) + "; then: " + l.Act
		if l.IdleSeconds != nil {
			text += "; or when it has been idle for " + seconds(l.IdleSeconds)
		}
		if l.Why != "" {
			text += "; " + screen.Printable(l.Why)
		}
		return text, nil
	})
}

// leaseEnd ends leases now, after it has shown what that ends.
func leaseEnd(ctx context.Context, s *cli.Session, o leaseFlags) error {
	change, err := o.request(s)
	if err != nil {
		return err
	}
	change.End = true
	picked, err := pick(ctx, s)
	if err != nil {
		return err
	}
	var names []string
	for _, i := range picked {
		fmt.Fprintln(s.Stderr, listed(s, about(i)+"; lease: "+leaseText(i.Lease, s.Now())))
		names = append(names, i.Provider+"/"+i.ID)
	}
	deed := "end the lease of " + screen.Plural(len(picked), "machine") + " now"
	if change.Act != "" {
		deed += " (" + change.Act + ")"
	}
	if err := s.Agree(deed, deed); err != nil {
		return err
	}
	return sendLeases(ctx, s, names, change)
}
