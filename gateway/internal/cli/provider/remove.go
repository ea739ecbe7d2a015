package provider

import (
	"context"
	"fmt"
	"slices"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// remove forgets an account. With --forget-machines it shows before what may be charged on.
func remove(ctx context.Context, s *cli.Session, o struct {
	ForgetMachines bool `flag:"forget-machines"`
	Plan           bool
}) error {
	name := s.Words[0]
	path := api.At(api.PathProvider, name)
	if !o.ForgetMachines {
		if o.Plan {
			return cli.Usagef("muster provider remove "+name+" --forget-machines --plan", "--plan shows which machines would be forgotten")
		}
		return s.Drop(ctx, path, nil, "forget the account "+name+" and its key", name+" is forgotten. What runs there goes on, and is charged.")
	}
	count, err := showRemains(ctx, s, name)
	if err != nil {
		return err
	}
	if o.Plan {
		fmt.Fprintln(s.Stdout, "Nothing was forgotten.")
		return nil
	}
	deed := "forget the account " + name + ", its key and " + screen.Plural(count, "machine")
	question := deed + ", which its company may charge for on and on"
	if count == 0 {
		question = deed
	}
	if err := s.Agree(question, deed); err != nil {
		return err
	}
	return s.Drop(ctx, path, providers.RemoveFilter{ForgetMachines: true}, "",
		name+" is forgotten. Nobody here sees its machines any more: end them with the company itself.")
}

// showRemains shows what an account may still be charged for, by all that is on record, and counts it.
func showRemains(ctx context.Context, s *cli.Session, name string) (count int, err error) {
	a, err := cli.Get[providers.Account](ctx, s, api.At(api.PathProvider, name), nil)
	if err != nil {
		return 0, err
	}
	seen, err := cli.Get[providers.InstanceList](ctx, s, api.At(api.PathInstances, name), nil)
	if err != nil {
		return 0, err
	}
	leases, err := cli.Get[providers.LeaseList](ctx, s, api.PathLeases, providers.LeaseFilter{Provider: name})
	if err != nil {
		return 0, err
	}
	rented, err := cli.Get[providers.RentedList](ctx, s, api.PathRentals, nil)
	if err != nil {
		return 0, err
	}
	var lines []string
	for _, i := range seen.Instances {
		lines = append(lines, about(i)+rentedText(i))
	}
	for _, l := range leases.Leases {
		if !slices.ContainsFunc(seen.Instances, func(i providers.Instance) bool { return i.ID == l.Instance }) {
			lines = append(lines, l.Provider+"/"+l.Instance+": under a lease, and not in the last list of its company")
		}
	}
	for _, r := range rented.Rentals {
		for _, m := range r.Machines {
			if m.Provider == name && m.State == providers.RentalIntended {
				lines = append(lines, "the order "+m.ID+" of the rental "+r.ID+", which may have come to something: "+screen.Price(&m.PerHour)+
					" an hour")
			}
		}
	}
	s.Printf("%s\n", accountLine(a, s.Now()))
	for _, line := range lines {
		fmt.Fprintln(s.Stdout, listed(s, line))
	}
	if len(lines) > 0 {
		s.Printf("All of that may be charged on. Their leases end as given up, and nothing is stopped or destroyed. A new key is the better way:"+
			"\n  muster provider add %s --name %s --key-file FILE\n", screen.Printable(a.Kind), screen.Printable(a.Name))
	}
	return len(lines), nil
}

// rentedText says whose a machine is.
func rentedText(i providers.Instance) string {
	switch {
	case i.Rental != "":
		return ", rented by muster (" + i.Rental + ")"
	case i.Lease != nil:
		return ", under a lease"
	}
	return ", not rented by muster"
}
