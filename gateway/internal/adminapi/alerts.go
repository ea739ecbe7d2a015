package adminapi

import (
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
)

// listAlerts lists what people are told of. It is in memory.
func (c *call) listAlerts(f api.AlertFilter) (any, error) {
	if err := c.Alerts.CheckCause(f.Cause); err != nil {
		return nil, err
	}
	picks, err := terms(f.Selector)
	if err != nil {
		return nil, err
	}
	found := c.Alerts.List(alert.Query{ID: f.ID, Cause: f.Cause, Tenant: f.Tenant, Terms: picks, All: f.All})
	list := api.AlertList{Total: len(found)}
	list.Alerts = found[:min(len(found), api.MostAlerts)]
	for i := range list.Alerts {
		if c.Caller.Tenant != "" {
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

func (c *call) listSilences(f ofTenant) (any, error) {
	return api.AlertSilenceList{Silences: c.Alerts.Silences(f.Tenant)}, nil
}

func (c *call) addSilence(q api.AlertSilenceRequest) (any, error) {
	tenant, err := c.Caller.Within(q.Tenant)
	if err != nil {
		return nil, err
	}
	if err := noToken("", map[string]string{"reason": q.Reason, "selector": q.Selector}); err != nil {
		return nil, err
	}
	q.Tenant = tenant
	return c.Alerts.Silence(c.Context(), q, c.Caller.Actor)
}

func (c *call) endSilence() (any, error) {
	id := c.Named("silence")
	return api.Done{ID: id, Status: "ended"}, c.Alerts.Unsilence(c.Context(), id, c.Caller.Tenant, c.Caller.Actor)
}

func (c *call) listReceivers() (any, error) {
	return api.AlertReceiverList{Receivers: c.Alerts.Receivers()}, nil
}

func (c *call) setReceiver(q api.AlertReceiverRequest) (any, error) {
	if err := noToken("", map[string]string{"selector": q.Selector}); err != nil {
		return nil, err
	}
	return c.Alerts.SetReceiver(c.Context(), c.Named("receiver"), q, c.Caller.Actor)
}

func (c *call) dropReceiver() (any, error) {
	name := c.Named("receiver")
	return api.Done{ID: name, Status: "deleted"}, c.Alerts.DropReceiver(c.Context(), name, c.Caller.Actor)
}

func (c *call) testReceiver(_ struct{}) (any, error) {
	return c.Alerts.Test(c.Context(), c.Named("receiver"), c.Caller.Actor)
}
