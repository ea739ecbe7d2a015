package adminapi

import (
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
)

// listAlerts lists what people are told of. It is in memory.
func (s *server) listAlerts(c *call, f api.AlertFilter) (any, error) {
	if err := s.Alerts.CheckCause(f.Cause); err != nil {
		return nil, err
	}
	picks, err := terms(f.Selector)
	if err != nil {
		return nil, err
	}
	found := s.Alerts.List(alert.Query{ID: f.ID, Cause: f.Cause, Tenant: f.Tenant, Terms: picks, All: f.All})
	list := api.AlertList{Total: len(found)}
	list.Alerts = found[:min(len(found), api.MostAlerts)]
	for i := range list.Alerts {
		if c.caller.Tenant != "" {
			list.Alerts[i] = forTenant(list.Alerts[i])
		}
	}
	return list, nil
}

// forTenant leaves out what is of the whole fleet: who receives alerts, and the words of a silence that is not the tenant's own.
func forTenant(a api.Alert) api.Alert {
	a.Deliveries = []api.AlertDelivery{}
	if a.Silence != nil && a.Silence.Tenant != a.Tenant {
		a.Silence = &api.AlertSilence{ID: a.Silence.ID, EndsAt: a.Silence.EndsAt}
	}
	return a
}

func (s *server) listSilences(_ *call, f ofTenant) (any, error) {
	return api.AlertSilenceList{Silences: s.Alerts.Silences(f.Tenant)}, nil
}

func (s *server) addSilence(c *call, q api.AlertSilenceRequest) (any, error) {
	tenant, err := c.caller.Within(q.Tenant)
	if err != nil {
		return nil, err
	}
	if err := noToken("", map[string]string{"reason": q.Reason, "selector": q.Selector}); err != nil {
		return nil, err
	}
	q.Tenant = tenant
	return s.Alerts.Silence(c.r.Context(), q, c.caller.Actor)
}

func (s *server) endSilence(c *call) (any, error) {
	id := c.r.PathValue("silence")
	return api.Done{ID: id, Status: "ended"}, s.Alerts.Unsilence(c.r.Context(), id, c.caller.Tenant, c.caller.Actor)
}

func (s *server) listReceivers(c *call) (any, error) {
	return api.AlertReceiverList{Receivers: s.Alerts.Receivers()}, nil
}

func (s *server) setReceiver(c *call, q api.AlertReceiverRequest) (any, error) {
	if err := noToken("", map[string]string{"selector": q.Selector}); err != nil {
		return nil, err
	}
	return s.Alerts.SetReceiver(c.r.Context(), c.r.PathValue("receiver"), q, c.caller.Actor)
}

func (s *server) dropReceiver(c *call) (any, error) {
	name := c.r.PathValue("receiver")
	return api.Done{ID: name, Status: "deleted"}, s.Alerts.DropReceiver(c.r.Context(), name, c.caller.Actor)
}

func (s *server) testReceiver(c *call, _ struct{}) (any, error) {
	return s.Alerts.Test(c.r.Context(), c.r.PathValue("receiver"), c.caller.Actor)
}
