package alert

import (
	"cmp"
	"slices"
	"strings"

	"muster/gateway/api"
	"muster/store"
	records "muster/store/alerts"
)

// Query picks alerts. A zero field does not restrict the result.
type Query struct {
	ID     string
	Tenant string
	Terms  []store.Term
	Cause  string
	All    bool // resolved ones too
}

// Alert is one as everybody may see it.
type Alert struct {
	records.Alert
	Next       string
	Topic      string
	Silence    *records.Silence // that keeps it from being told; nil: none
	Deliveries []records.Delivery
}

// List are the alerts that a query picks: the open ones first, the severe first, then the newest.
func (d *Desk) List(q Query) []Alert {
	now := d.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	told := map[string][]records.Delivery{}
	for p, v := range d.deliveries {
		told[p.alert] = append(told[p.alert], v.Delivery)
	}
	var all []Alert
	for id, a := range d.alerts {
		if !q.picks(a) || len(q.Terms) > 0 && !d.matches(q.Terms, a) {
			continue
		}
		c := cause(a.Cause)
		out := Alert{Alert: a.Alert, Next: cmp.Or(a.next, c.Next), Topic: c.Topic, Deliveries: told[id]}
		out.Members = slices.Clone(a.Members)
		slices.SortFunc(out.Deliveries, func(a, b records.Delivery) int { return strings.Compare(a.Receiver, b.Receiver) })
		if s := d.silenceOf(a, now); s != nil && a.ResolvedAt == nil {
			out.Silence = &s.Silence
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

func compare(a, b Alert) int {
	if (a.ResolvedAt == nil) != (b.ResolvedAt == nil) {
		if a.ResolvedAt == nil {
			return -1
		}
		return 1
	}
	if a.ResolvedAt == nil {
		if order := cmp.Compare(api.SeverityRank(b.Severity), api.SeverityRank(a.Severity)); order != 0 {
			return order
		}
	}
	return cmp.Or(b.FiredAt.Compare(a.FiredAt), strings.Compare(a.ID, b.ID))
}
