package inventory

import (
	"context"
	"fmt"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
	"muster/gateway/internal/placement/inventory/sku"
)

// SKUs lists the kinds of slots that the nodes of a tenant ("": of all) give now.
func (s *Service) SKUs(_ context.Context, tenant string) (api.SKUList, error) {
	return api.SKUList{SKUs: append([]api.SKU{}, pick.SKUs(s.ofTenant(tenant))...)}, nil
}

// Explain says which nodes have slots of a SKU, which do not, and why not.
func (s *Service) Explain(_ context.Context, tenant, name string) (api.SKUExplained, error) {
	if _, known := sku.Parse(name); !known {
		return api.SKUExplained{}, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("%.80q is no SKU", name), "muster sku ls; such as h100-sxm-gpu")
	}
	return pick.Explain(name, s.ofTenant(tenant)), nil
}

// ofTenant are the nodes of a tenant for package pick, by name. A node without slots has a reason too.
func (s *Service) ofTenant(tenant string) (nodes []pick.Node) {
	now := s.Now()
	rows := s.Nodes()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range rows {
		if tenant != "" && row.Tenant != tenant || row.GPUs != nil && len(row.GPUs) == 0 {
			continue
		}
		nodes = append(nodes, s.forPick(s.at(row.ID), row, now))
	}
	return nodes
}
