package maas

import (
	"context"
	"slices"

	"muster/gateway/api/machines"
	"muster/gateway/internal/view/hardware"
)

// Fits tells which machines have a profile, and by their tags a model of GPU.
func Fits(model string) func(machines.Machine) bool {
	return func(m machines.Machine) bool {
		return m.Profile != "" && slices.ContainsFunc(m.Tags, func(tag string) bool { return hardware.TagFits(tag, model) })
	}
}

// Could tells whether a tenant has a machine that fits, in whatever state it is now.
func (s *Service) Could(ctx context.Context, tenant string, fits func(machines.Machine) bool) bool {
	if !s.State().Known {
		return false
	}
	all, err := s.load(ctx)
	k, now := s.whole(), s.Now()
	return err == nil && slices.ContainsFunc(all, func(m *machine) bool {
		return m.node != nil && m.node.Tenant == tenant && fits(s.shown(m, k, now))
	})
}
