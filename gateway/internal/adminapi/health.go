package adminapi

import (
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health"
	records "muster/store/health"
)

// listFindings lists what is wrong with nodes now. It is in memory.
func (c *call) listFindings(f api.FindingFilter) (any, error) {
	picks, err := terms(f.Selector)
	if err != nil {
		return nil, err
	}
	if !c.Overview.Ready() {
		return nil, stillReading()
	}
	found := c.Health.List(health.Query{Tenant: f.Tenant, Terms: picks, Severe: f.Severe})
	return api.FindingList{Total: len(found), Findings: found[:min(len(found), api.MostFindings)]}, nil
}

// findings are what is open of a node.
func (s *server) findings(nodeID string) []api.Finding {
	if s.Health == nil {
		return []api.Finding{}
	}
	return s.Health.Findings(nodeID)
}

func (c *call) listHealthRules() (any, error) {
	return api.HealthRuleList{Rules: c.Health.Rules()}, nil
}

func (c *call) setHealthRule(q api.HealthRuleRequest) (any, error) {
	name := c.Named("rule")
	if err := noToken("", map[string]string{"selector": q.Selector}); err != nil {
		return nil, err
	}
	set := records.Setting{Rule: name, Selector: q.Selector, Off: q.Off, Limit: q.Limit, For: time.Duration(q.For)}
	return c.Health.Set(c.Context(), set, c.Caller.Actor)
}

func (c *call) unsetHealthRule(f struct {
	Selector string `json:"selector"`
}) (any, error) {
	rule := c.Named("rule")
	return api.Done{ID: rule, Status: "deleted"}, c.Health.Unset(c.Context(), rule, f.Selector, c.Caller.Actor)
}
