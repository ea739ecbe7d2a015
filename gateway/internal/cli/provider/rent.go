package provider

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// renting is one call of rent.
type renting struct {
	*cli.Session
	want  providers.Renting
	flags struct {
		MaxPrice string
		Disk     int
		Memory   int           `flag:"gpu-memory"`
		TTL      time.Duration `flag:"ttl,seconds"`
		IdleEnd  time.Duration `flag:"idle-end,seconds"`
		Plan     bool
	}
}

// rent shows what it would rent, asks, rents, and waits until every machine is ready.
func rent(ctx context.Context, s *cli.Session) error {
	r := &renting{Session: s}
	if err := r.read(ctx); err != nil {
		return err
	}
	offers, err := cli.Get[providers.OfferList](ctx, s, api.PathOffers, r.filter())
	switch {
	case err != nil:
		return err
	case r.flags.Plan && s.Form == cli.FormJSON:
		return s.WriteJSON(offers)
	}
	if err := r.choose(offers); err != nil {
		return err
	}
	if r.flags.Plan {
		fmt.Fprintln(s.Stdout, "Nothing was rented.")
		return nil
	}
	if err := r.agree(offers); err != nil {
		return err
	}
	rented, err := r.send(ctx)
	if err == nil {
		rented, err = r.await(ctx, rented)
	}
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		err = s.WriteJSON(rented)
	default:
		showRental(s, rented)
	}
	if err == nil && rented.State == providers.RentedFailed {
		err = cli.ErrReported
	}
	return err
}

// read makes the request from the flags. Its id is chosen here, so that a request whose answer got lost can be made again without a second
// rental.
func (r *renting) read(ctx context.Context) error {
	f, w := &r.flags, &r.want
	if err := r.Flags.Into(f, w); err != nil {
		return err
	}
	switch {
	case w.GPU == "":
		return cli.Usagef("--gpu H100", "which GPUs are to be rented?")
	case f.TTL == 0 && !f.Plan:
		return cli.Usagef("--ttl 8h; muster lease extend moves the end later", "for how long? What is rented has an end")
	}
	if _, err := r.Flags.OneOf("act", "", acts()...); err != nil {
		return err
	}
	if !r.Flags.Given("gpus") { // the variable of this one is about nodes that join
		w.GPUs = 0
	}
	for name, n := range map[string]int{"gpus": w.GPUs, "count": w.Count} {
		if n < 1 && r.Flags.Given(name) {
			return r.Flags.Wrong(name, "write a whole number from 1, or leave it out", "")
		}
	}
	w.ID, w.Count = wire.NewTaskID(), max(w.Count, 1)
	w.Memory, w.DiskGB = mebibytes(f.Memory), f.Disk
	w.TTLSeconds, w.IdleEnd = int(f.TTL/time.Second), int(f.IdleEnd/time.Second)
	if f.MaxPrice != "" {
		most, err := price(f.MaxPrice)
		if err != nil || most == 0 {
			return r.Flags.Wrong("max-price", "write a price such as 2.50", "")
		}
		r.want.MaxPrice = &most
	}
	if err := r.account(ctx); err != nil {
		return err
	}
	return r.AskTenant(ctx, w.Tenant)
}

// mebibytes are the MiB that a card of so many GB has at least: what is sold as 80 GB are decimal ones.
func mebibytes(gb int) int64 { return int64(gb) * 1e9 >> 20 }

// account is the one there is, if none is named.
func (r *renting) account(ctx context.Context) error {
	if r.want.Provider != "" {
		return nil
	}
	l, err := cli.Get[providers.List](ctx, r.Session, api.PathProviders, nil)
	switch {
	case err != nil:
		return err
	case len(l.Providers) == 0:
		return cli.Hinted("there is no account with a company that rents machines", "muster provider add KIND --key-file FILE")
	case len(l.Providers) > 1:
		var names []string
		for _, p := range l.Providers {
			names = append(names, p.Name)
		}
		return cli.Usagef("--provider ACCOUNT: "+strings.Join(names, ", "), "there are %d accounts: which one?", len(names))
	}
	r.want.Provider = l.Providers[0].Name
	return nil
}

func (r *renting) filter() providers.OfferFilter {
	w := r.want
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		labels = append(labels, key+"="+w.Labels[key])
	}
	return providers.OfferFilter{Provider: w.Provider, Tenant: w.Tenant, GPU: w.GPU, GPUs: w.GPUs, Count: w.Count, MaxPrice: w.MaxPrice,
		Memory: w.Memory, Region: w.Region, DiskGB: w.DiskGB, Bid: w.Bid, Image: w.Image, Offers: w.Offers, Labels: labels,
		TTLSeconds: w.TTLSeconds, Act: w.Act, IdleEnd: w.IdleEnd}
}

const otherOffers = 8 // that a table shows beside those that are chosen

// choose shows the offers, and refuses where there are too few. Without a price of its own the request is bound by what was shown, so that
// nothing dearer is rented in the place of an offer that is gone.
func (r *renting) choose(l providers.OfferList) error {
	chosen := slices.DeleteFunc(slices.Clone(l.Offers), func(o providers.Offer) bool { return !o.Chosen })
	shown := l.Offers
	if r.Form == cli.FormTable {
		shown = shown[:min(len(shown), len(chosen)+otherOffers)]
	}
	if r.Form != cli.FormJSON && len(shown) > 0 {
		if err := r.List(offerColumns()).Write(cli.Rows(shown, func(o providers.Offer) []string { return offerRow(o, r.Now()) })); err != nil {
			return err
		}
	}
	if n := len(l.Offers) - len(shown); n > 0 && r.Form != cli.FormJSON {
		fmt.Fprintf(r.Stdout, "%d more: -o wide shows all\n", n)
	}
	for _, id := range r.want.Offers {
		at := slices.IndexFunc(l.Offers, func(o providers.Offer) bool { return o.ID == id })
		if at >= 0 && l.Offers[at].Misfit != "" {
			return cli.Hinted("the offer "+screen.Printable(id)+" cannot be taken: "+screen.Printable(l.Offers[at].Misfit),
				"choose another one, or change what is asked for")
		}
		if at < 0 && len(chosen) < r.want.Count {
			return cli.Hinted(fmt.Sprintf("the offer %s is taken by somebody else, or %s has none that is called so", screen.Printable(id),
				r.want.Provider), "leave out --offer to see what there is now: --plan")
		}
	}
	if len(l.Offers) == 0 {
		return cli.Hinted(fmt.Sprintf("%s offers no machine that has %q in the name of its GPU, and the rest that is asked for", r.want.Provider,
			r.want.GPU), "write the model as the company does, such as H100 or RTX 4090; pay more (--max-price); leave out --gpus, --region, "+
			"--gpu-memory and --disk")
	}
	if len(chosen) < r.want.Count {
		return cli.Hinted(fmt.Sprintf("%s of %d can be had from %s now", screen.Plural(len(chosen), "machine"), r.want.Count, r.want.Provider),
			"ask for fewer (--count), pay more (--max-price), take as many GPUs as the offers have (--gpus), or leave out --region, "+
				"--gpu-memory and --disk")
	}
	if l.Refused != "" {
		return cli.Hinted("these would not be rented: "+screen.Printable(l.Refused), "muster provider limit shows and sets limits")
	}
	dearest := 0.0
	for _, o := range chosen {
		dearest = max(dearest, o.PerHour)
	}
	if r.want.MaxPrice == nil {
		r.want.MaxPrice = &dearest
	}
	return nil
}

func offerColumns() []screen.Column {
	return []screen.Column{{Name: " "}, {Name: "OFFER"}, {Name: "GPU", Least: 8, Most: 30}, {Name: "PRICE"},
		{Name: "RELIABILITY", Rank: 3}, {Name: "REGION", Rank: 2, Least: 6, Most: 30}, {Name: "KNOWN", Rank: 1, Least: 24, Most: 60},
		{Name: "MEMORY", Rank: 4}, {Name: "HOST", Rank: 5, Most: 24}, {Name: "UNTIL", Wide: true}}
}

func offerRow(o providers.Offer, now time.Time) []string {
	mark := " "
	if o.Chosen {
		mark = "*"
	}
	reliable, until, memory := screen.Unknown, screen.Unknown, screen.Unknown
	if o.Reliability != nil {
		reliable = fmt.Sprintf("%.1f%%", 100**o.Reliability)
	}
	if o.Until != nil {
		until = screen.When(now, *o.Until)
	}
	if o.MemoryMiB != nil {
		memory = fmt.Sprintf("%d MiB", *o.MemoryMiB)
	}
	return []string{mark, o.ID, fmt.Sprintf("%dx %s", o.GPUs, screen.Model(o.GPU)), screen.Price(&o.PerHour), reliable, o.Region, o.Known,
		memory, o.Host, until}
}

// agree asks a person, with the most that it can cost.
func (r *renting) agree(l providers.OfferList) error {
	w := r.want
	deed := "rent " + screen.Plural(w.Count, "machine")
	question := fmt.Sprintf("%s of %s for %s (%s an hour, at most %s each), and then %s", deed, w.Provider,
		screen.Age(time.Duration(w.TTLSeconds)*time.Second), screen.Price(&l.PerHour), screen.Price(w.MaxPrice), thenAct(w.Act, w.Count))
	return r.Agree(question, deed)
}

func thenAct(act string, machines int) string {
	which := "them"
	if machines == 1 {
		which = "it"
	}
	switch act {
	case providers.ActStop:
		return "stop " + which
	case providers.ActKeep:
		return "only tell"
	}
	return "destroy " + which
}

// send makes the request, and makes it again where no answer came.
func (r *renting) send(ctx context.Context) (providers.Rented, error) {
	rented, err := cli.SendSurely[providers.Rented](ctx, r.Session, http.MethodPost, api.PathRentals, r.want)
	if err != nil && ctx.Err() != nil {
		return rented, leave(r.Session, "Whether "+r.want.ID+" is being rented is not known.", r.want.ID)
	}
	return rented, err
}
