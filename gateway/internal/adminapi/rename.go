package adminapi

import (
	"slices"

	"muster/gateway/api"
	"muster/gateway/internal/label"
)

// renameNode names what goes on by the old name, because a selector such as name=gpu-7 is somebody's text: nobody changes it for them.
func (c *call) renameNode(q api.RenameRequest) (any, error) {
	if err := noToken(q.Name, nil); err != nil {
		return nil, err
	}
	before, err := c.Fleet.Node(c.Context(), c.Caller.Tenant, c.Named("node"))
	if err != nil {
		return nil, err
	}
	n, err := c.Fleet.Rename(c.Context(), c.Caller.Tenant, before.ID, q.Name, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	c.renew(n)
	out := api.RenamedNode{Node: c.node(n), Old: []string{}}
	if before.Name != n.Name {
		out.Old = append(out.Old, c.goingBy(before.Name)...)
	}
	return out, nil
}

// goingBy are the settings with a selector that has a node's name in it, of those that the caller may see.
func (c *call) goingBy(name string) (found []string) {
	note := func(selector, what string) {
		terms, err := label.ParseSelector(selector)
		if err == nil && slices.ContainsFunc(terms, func(t label.Term) bool { return t.Key == "name" && t.Value == name }) {
			found = append(found, what+", selector "+selector)
		}
	}
	who := c.Caller
	if c.Health != nil && who.Tenant == "" && who.May(api.ScopeNodesRead) {
		for _, rule := range c.Health.Rules() {
			for _, setting := range rule.Settings {
				note(setting.Selector, "health rule "+rule.Rule)
			}
		}
	}
	if c.Alerts != nil && who.May(api.ScopeAlertsRead) {
		for _, silence := range c.Alerts.Silences(who.Tenant) {
			note(silence.Selector, "alert silence "+silence.ID)
		}
		if who.Tenant == "" {
			for _, receiver := range c.Alerts.Receivers() {
				note(receiver.Selector, "alert receiver "+receiver.Name)
			}
		}
	}
	if c.Shipping != nil && who.May(api.ScopeLogsRead) {
		for _, rule := range c.Shipping.Rules(who.Tenant) {
			note(rule.Selector, "log shipping "+rule.Name)
		}
	}
	return found
}
