package rent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
)

// choose takes so many offers: those that a person has named, else the cheapest. It returns fewer where there are no more. No two are on
// one host, nor on one that is in use, as long as there is another way, since offers of one host may be of the same GPUs. An offer without
// a host is a kind of machine that can be had more than once.
func choose(q providers.Renting, count int, o offering) (chosen []cloud.Offer) {
	fitting := slices.DeleteFunc(slices.Clone(o.offers), func(one cloud.Offer) bool { return misfit(one, q, o.bad) != "" })
	slices.SortStableFunc(fitting, func(a, b cloud.Offer) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.GPUs, b.GPUs), strings.Compare(a.ID, b.ID))
	})
	hosts, taken := map[string]bool{}, map[string]bool{}
	for _, host := range o.used {
		hosts[host] = host != ""
	}
	take := func(x cloud.Offer) {
		chosen, hosts[x.Host], taken[x.ID] = append(chosen, x), x.Host != "", true
	}
	for _, x := range fitting {
		for len(q.Offers) == 0 && x.Host == "" && len(chosen) < count {
			take(x)
		}
		if len(chosen) < count && !hosts[x.Host] {
			take(x)
		}
	}
	for grown := true; grown && len(chosen) < count; {
		grown = false
		for _, x := range fitting {
			if len(chosen) < count && (!taken[x.ID] || x.Host == "") {
				take(x)
				grown = true
			}
		}
	}
	return chosen
}

// misfit says why an offer is not taken; "": it may be. A price that nobody knows may be above any limit.
func misfit(o cloud.Offer, q providers.Renting, bad map[string]string) string {
	switch {
	case len(q.Offers) > 0 && !slices.Contains(q.Offers, o.ID):
		return "it is not chosen"
	case o.Price <= 0:
		return "its price is not known"
	case q.MaxPrice != nil && o.Price > money(*q.MaxPrice):
		return "it is too dear"
	case o.GPUs < max(q.GPUs, 1):
		return "it has too few GPUs"
	case o.GPUs > max(q.GPUs, 1) && !q.MoreGPUs:
		return "it has more GPUs"
	case q.Memory > 0 && (o.GPUMiB == nil || *o.GPUMiB < q.Memory):
		return "its GPUs have too little memory"
	case o.Host != "" && bad[o.Host] != "":
		return "its host is bad: " + bad[o.Host]
	}
	return ""
}

// money is an amount in millionths of a dollar, as the person meant it who wrote it in dollars.
func money(dollars float64) cloud.Money { return cloud.Money(dollars*float64(cloud.Dollar) + 0.5) }

// dollars writes an amount for people.
func dollars(m cloud.Money) string { return fmt.Sprintf("$%.2f", m.Dollars()) }

// wantOf is what offers must have. What is chosen by id is found whatever it costs.
func wantOf(q providers.Renting) cloud.Want {
	w := cloud.Want{GPU: q.GPU, GPUs: max(q.GPUs, 1), GPUMiB: q.Memory, Region: q.Region, DiskGB: q.DiskGB, Bid: q.Bid}
	if q.MaxPrice != nil && len(q.Offers) == 0 {
		w.MaxPrice = money(*q.MaxPrice)
	}
	return w
}
