package market

import (
	"context"
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/provider/cloud"
	rentals "muster/store/provider"
)

// What a company says is bounded.
const (
	mostInstances = 50_000
	mostMoney     = 1_000_000 * cloud.Dollar // an hour
	longestText   = 300
	longestWord   = 128
)

// read gives all instances of an account, each once, as the database keeps them: of a large account nothing else of a page stays in memory.
// A list in which one has no id that can be used is an odd answer: who knows what else is in it.
func read(ctx context.Context, c Cloud) ([]rentals.Instance, error) {
	var all []rentals.Instance
	places := map[string]int{}
	odd := ""
	err := c.List(ctx, func(page []cloud.Instance) {
		for _, i := range page {
			clean(&i)
			if i.ID == "" || wire.CheckInstance("", i.ID) != nil {
				odd = fmt.Sprintf("an instance has the id %.40q", i.ID)
				continue
			}
			row, err := rowOf(&i)
			if err != nil {
				odd = err.Error()
				continue
			}
			at, twice := places[i.ID] // pages may shift while they are read
			if twice {
				all[at] = row
				continue
			}
			if len(all) == mostInstances {
				odd = fmt.Sprintf("there are more than %d instances", mostInstances)
				return
			}
			places[i.ID] = len(all)
			all = append(all, row)
		}
	})
	if err == nil && odd != "" {
		err = &cloud.Error{Kind: cloud.Unclear, Text: odd}
	}
	return all, err
}

// get is one instance. An answer about another one says nothing of it.
func get(ctx context.Context, c Cloud, id string) (cloud.Instance, error) {
	i, err := c.Get(ctx, id)
	if err == nil && i.ID != id {
		err = &cloud.Error{Kind: cloud.Unclear, Text: fmt.Sprintf("asked for %s, the company shows %.40q", id, i.ID)}
	}
	clean(&i)
	return i, err
}

// clean bounds what is kept of an instance. What cannot be is not known.
func clean(i *cloud.Instance) {
	i.Name, i.Why = wire.Plain(i.Name, longestText), wire.Plain(i.Why, longestText)
	for _, word := range []*string{&i.Raw, &i.Host, &i.Region, &i.GPU} {
		*word = wire.Plain(*word, longestWord)
	}
	switch i.State {
	case cloud.Starting, cloud.Running, cloud.Stopped, cloud.Broken, cloud.Ending, cloud.Gone:
	default:
		i.State = cloud.Unknown
	}
	for _, price := range []**cloud.Money{&i.Price, &i.Running, &i.Storage} {
		if *price != nil && (**price < 0 || **price > mostMoney) {
			*price = nil
		}
	}
	for _, at := range []**time.Time{&i.StartedAt, &i.EndsAt} {
		if *at != nil && ((*at).Year() < 2000 || (*at).Year() > 2200) {
			*at = nil
		}
	}
	i.GPUs = max(i.GPUs, 0)
	if i.GPUMiB != nil && *i.GPUMiB <= 0 {
		i.GPUMiB = nil
	}
	if a := i.SSH; a != nil {
		i.SSH = cloud.SSHAt(a.Host, a.Port, a.User)
	}
}
