package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// HealthRules lists the rules with their settings.
func (c *Client) HealthRules(ctx context.Context) (api.HealthRuleList, error) {
	var list api.HealthRuleList
	err := c.do(ctx, "GET", "health-rules", nil, nil, &list)
	return list, err
}

// SetHealthRule sets a rule for the nodes that a selector names.
func (c *Client) SetHealthRule(ctx context.Context, rule string, q api.HealthRuleRequest) (api.HealthRule, error) {
	var set api.HealthRule
	err := c.do(ctx, "PUT", "health-rules/"+url.PathEscape(rule), nil, q, &set)
	return set, err
}

// UnsetHealthRule drops the setting of a rule for a selector.
func (c *Client) UnsetHealthRule(ctx context.Context, rule, selector string) error {
	q := url.Values{}
	set(q, "selector", selector)
	return c.do(ctx, "DELETE", "health-rules/"+url.PathEscape(rule), q, nil, &api.Done{})
}

// Findings lists what is wrong with nodes now.
func (c *Client) Findings(ctx context.Context, f api.FindingFilter) (api.FindingList, error) {
	q := url.Values{}
	set(q, "selector", f.Selector)
	set(q, "tenant", f.Tenant)
	setIf(q, "severe", f.Severe)
	var list api.FindingList
	err := c.do(ctx, "GET", "findings", q, nil, &list)
	return list, err
}
