package adminapi

import (
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health"
	records "muster/store/health"
)

// listFindings lists what is wrong with nodes now. It is in memory.
func (s *server) listFindings(_ *call, f api.FindingFilter) (any, error) {
	picks, err := terms(f.Selector)
	if err != nil {
		return nil, err
	}
	if !s.Overview.Ready() {
		return nil, stillReading()
	}
	found := s.Health.List(health.Query{Tenant: f.Tenant, Terms: picks, Severe: f.Severe})
	return api.FindingList{Total: len(found), Findings: found[:min(len(found), api.MostFindings)]}, nil
}

// findings are what is open of a node.
func (s *server) findings(nodeID string) []api.Finding {
	if s.Health == nil {
		return []api.Finding{}
	}
	return s.Health.Findings(nodeID)
}

func (s *server) listHealthRules(c *call) (any, error) {
	return api.HealthRuleList{Rules: s.Health.Rules()}, nil
}

func (s *server) setHealthRule(c *call, q api.HealthRuleRequest) (any, error) {
	name := c.r.PathValue("rule")
	if err := noToken("", map[string]string{"selector": q.Selector}); err != nil {
		return nil, err
	}
	set := records.Setting{Rule: name, Selector: q.Selector, Off: q.Off, Limit: q.Limit, For: time.Duration(q.For)}
	return s.Health.Set(c.r.Context(), set, c.caller.Actor)
}

func (s *server) unsetHealthRule(c *call, f struct {
	Selector string `json:"selector"`
}) (any, error) {
	rule := c.r.PathValue("rule")
	return api.Done{ID: rule, Status: "deleted"}, s.Health.Unset(c.r.Context(), rule, f.Selector, c.caller.Actor)
}
