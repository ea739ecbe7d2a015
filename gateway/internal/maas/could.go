package maas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/gateway/api/machines"
	"muster/gateway/internal/view/hardware"
	records "muster/store/maas"
)

// mostNamed is how many machines a reason names.
const mostNamed = 3

// Fits returns a function that reports whether a machine has a profile and, by its tags, GPUs of the model.
func Fits(model string) func(machines.Machine) bool {
	return func(m machines.Machine) bool {
		return m.Profile != "" && slices.ContainsFunc(m.Tags, func(tag string) bool { return hardware.TagFits(tag, model) })
	}
}

// Could reports whether the tenant has enough fitting machines for an allocation. Their state does not matter. It refuses what MAAS has no
// image for.
func (s *Service) Could(ctx context.Context, q Wanted) (bool, error) {
	if !s.State().Known {
		return false, nil
	}
	all, err := s.load(ctx)
	k, now := s.whole(), s.Now()
	count := 0
	for _, m := range all {
		if m.node != nil && m.node.Tenant == q.Tenant && q.Fits(s.shown(m, k, now)) {
			count++
		}
	}
	if err != nil || count < q.Count {
		return false, err
	}
	err = s.hasImage(ctx, "")
	return err == nil, err
}

// Later says what in MAAS an allocation waits for, if Serve has begun nothing for it; empty: no machine could be deployed for it.
func (s *Service) Later(ctx context.Context, q Wanted) string {
	all, err := s.load(ctx)
	if err != nil {
		return ""
	}
	var busy []string
	var last records.Ended
	failed, name := 0, ""
	for _, m := range all {
		if e := records.ReadEnded(m.Ended); e.Why != "" && e.Allocates == q.Allocation {
			if failed++; e.At.After(last.At) {
				last, name = e, cmp.Or(m.seen.Hostname, m.SystemID)
			}
		}
		shown := s.shown(m, s.whole(), s.Now())
		if m.node != nil && m.node.Tenant == q.Tenant && q.Fits(shown) && len(busy) < mostNamed {
			busy = append(busy, shown.Node+" ("+against(shown)+")")
		}
	}
	switch {
	case failed >= mostServed:
		return fmt.Sprintf("a person: %d deployments in MAAS failed for it, the last of %s at %s, and no other one begins", failed, name,
			last.At.UTC().Format(time.RFC3339))
	case failed > 0 && s.Now().Sub(last.At) < serveAgain:
		return fmt.Sprintf("a machine of MAAS: the deployment of %s failed at %s, and another one begins at %s at the earliest", name,
			last.At.UTC().Format(time.RFC3339), last.At.Add(serveAgain).UTC().Format(time.RFC3339))
	case len(busy) > 0:
		if err := s.hasImage(ctx, ""); err != nil {
			return "an image: " + err.Error()
		}
		return "a machine of MAAS that is ready: " + strings.Join(busy, ", ")
	}
	return ""
}

// against is what stands against a deployment of a machine.
func against(m machines.Machine) string {
	if m.Work != nil {
		return m.Work.Act + " goes on"
	}
	return cmp.Or(m.Finding, m.State+" in MAAS, its node "+m.NodeState)
}
