package alert

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/label"
)

// Query picks alerts. A zero field does not restrict the result.
type Query struct {
	ID     string
	Tenant string
	Terms  []label.Term
	Cause  string
	All    bool // resolved ones too
}

// List returns the alerts that a query picks: the open ones first, the severe first, then the newest.
func (d *Service) List(q Query) []api.Alert {
	now := d.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	told := map[string][]api.AlertDelivery{}
	for p, v := range d.deliveries {
		told[p.alert] = append(told[p.alert], api.AlertDelivery{Receiver: v.Receiver, Told: v.Told, ToldAt: v.ToldAt,
			Waiting: v.Told != v.Want && !v.GaveUp, GivenUp: v.GaveUp, Tries: v.Tries, Error: v.Error})
	}
	all := []api.Alert{}
	for id, a := range d.alerts {
		if !q.picks(a) || len(q.Terms) > 0 && !d.matches(q.Terms, a) {
			continue
		}
		out := api.Alert{AlertFacts: d.says(a), NodeIDs: append([]string{}, a.Members...),
			Deliveries: append([]api.AlertDelivery{}, told[id]...)}
		slices.SortFunc(out.Deliveries, func(a, b api.AlertDelivery) int { return strings.Compare(a.Receiver, b.Receiver) })
		if s := d.silenceOf(a, now); s != nil && a.ResolvedAt == nil {
			silence := d.shownSilence(s.Silence)
			out.Silence = &silence
		}
		all = append(all, out)
	}
	slices.SortFunc(all, compare)
	return all
}

func (q *Query) picks(a *alert) bool {
	return (q.ID == "" || q.ID == a.ID) && (q.Tenant == "" || q.Tenant == a.Tenant) && (q.Cause == "" || q.Cause == a.Cause) &&
		(q.All || q.ID != "" || a.ResolvedAt == nil)
}

func compare(a, b api.Alert) int {
	order := openFirst(a.ResolvedAt, b.ResolvedAt)
	if order == 0 && a.ResolvedAt == nil {
		order = api.SeverityRank(b.Severity) - api.SeverityRank(a.Severity)
	}
	return cmp.Or(order, b.FiredAt.Compare(a.FiredAt), strings.Compare(a.ID, b.ID))
}

// openFirst compares when two alerts were resolved, if they were: those that are open come first.
func openFirst(a, b *time.Time) int {
	switch {
	case (a == nil) == (b == nil):
		return 0
	case a == nil:
		return -1
	}
	return 1
}
