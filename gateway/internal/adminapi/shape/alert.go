package shape

import (
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	records "muster/store/alerts"
)

// Alert is an alert, with who was told of it.
func Alert(a alert.Alert) api.Alert {
	out := api.Alert{ID: a.ID, Cause: a.Cause, Subject: a.Subject, Severity: a.Severity, Tenant: a.Tenant, Node: a.NodeName,
		NodeID: a.NodeID, NodeIDs: a.Members, Text: a.Text, Next: a.Next, Topic: a.Topic, Since: a.Since.UTC(), FiredAt: a.FiredAt.UTC(),
		ResolvedAt: a.ResolvedAt}
	if out.NodeIDs == nil {
		out.NodeIDs = []string{}
	}
	if a.Silence != nil {
		silence := Silence(*a.Silence)
		out.Silence = &silence
	}
	out.Deliveries = Each(a.Deliveries, func(v records.Delivery) api.AlertDelivery {
		return api.AlertDelivery{Receiver: v.Receiver, Told: v.Told, ToldAt: v.ToldAt, Waiting: v.Told != v.Want && !v.GaveUp,
			GivenUp: v.GaveUp, Tries: v.Tries, Error: v.Error}
	})
	return out
}

// Silence is why people are not told of an alert.
func Silence(s records.Silence) api.AlertSilence {
	return api.AlertSilence{ID: s.ID, Node: s.NodeName, Selector: s.Selector, Cause: s.Cause, Tenant: s.Tenant, Reason: s.Reason,
		CreatedAt: s.CreatedAt.UTC(), CreatedBy: s.CreatedBy, EndsAt: s.EndsAt.UTC()}
}

// Receiver is who is told of alerts. Its secrets are left out.
func Receiver(r alert.Receiver) api.AlertReceiver {
	out := api.AlertReceiver{Name: r.Name, Kind: r.Kind, Host: r.Host, Selector: r.Selector, Tenant: r.Tenant, Causes: r.Causes,
		Severity: r.Severity, Priority: r.Priority, HasToken: r.HasToken, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy,
		SentAt: r.SentAt, FailedAt: r.FailedAt, Error: r.Error, Waiting: r.Waiting, GivenUp: r.GivenUp}
	if out.Causes == nil {
		out.Causes = []string{}
	}
	return out
}
