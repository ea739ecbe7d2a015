package adminapi

import (
	"slices"

	"muster/gateway/api"
	"muster/gateway/internal/label"
)

// renameNode names what goes on by the old name, because a selector such as name=gpu-7 is somebody's text: nobody changes it for them.
func (s *server) renameNode(c *call, q api.RenameRequest) (any, error) {
	if err := noToken(q.Name, nil); err != nil {
		return nil, err
	}
	before, err := s.Fleet.Node(c.r.Context(), c.caller.Tenant, c.r.PathValue("node"))
	if err != nil {
		return nil, err
	}
	n, err := s.Fleet.Rename(c.r.Context(), c.caller.Tenant, before.ID, q.Name, c.caller.Actor)
	if err != nil {
		return nil, err
	}
	s.renew(c, n)
	out := api.RenamedNode{Node: s.node(n), Old: []string{}}
	if before.Name != n.Name {
		out.Old = append(out.Old, s.goingBy(c, before.Name)...)
	}
	return out, nil
}

// goingBy are the settings with a selector that has a node's name in it, of those that the caller may see.
func (s *server) goingBy(c *call, name string) (found []string) {
	note := func(selector, what string) {
		terms, err := label.ParseSelector(selector)
		if err == nil && slices.ContainsFunc(terms, func(t label.Term) bool { return t.Key == "name" && t.Value == name }) {
			found = append(found, what+", selector "+selector)
		}
	}
	who := c.caller
	if s.Health != nil && who.Tenant == "" && who.May(api.ScopeNodesRead) {
		for _, rule := range s.Health.Rules() {
			for _, setting := range rule.Settings {
				note(setting.Selector, "health rule "+rule.Rule)
			}
		}
	}
	if s.Alerts != nil && who.May(api.ScopeAlertsRead) {
		for _, silence := range s.Alerts.Silences(who.Tenant) {
			note(silence.Selector, "alert silence "+silence.ID)
		}
		if who.Tenant == "" {
			for _, receiver := range s.Alerts.Receivers() {
				note(receiver.Selector, "alert receiver "+receiver.Name)
			}
		}
	}
	if s.Shipping != nil && who.May(api.ScopeLogsRead) {
		for _, rule := range s.Shipping.Rules(who.Tenant) {
			note(rule.Selector, "log shipping "+rule.Name)
		}
	}
	return found
}
