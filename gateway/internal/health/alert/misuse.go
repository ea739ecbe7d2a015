package alert

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/health/condition"
	"muster/store"
)

// misuseFor is how long uses of tokens are counted for one alert.
const misuseFor = time.Hour

// misuse counts refused uses of tokens of one tenant.
type misuse struct {
	since   time.Time
	count   int
	address string // of the last
	code    string // of the last
	plain   string // the account whose API token came without TLS last; empty: none did
	reader  string // the address that it came from
}

// Take looks at events. It only counts.
func (d *Service) Take(_ context.Context, events []store.Event) {
	for i := range events {
		if e := &events[i]; isMisuse(e) {
			d.count(e)
		}
	}
}

// isMisuse is true for refusals of a token that is on record. Anybody can invent others, and everybody scans the internet.
func isMisuse(e *store.Event) bool {
	owned := e.Tenant != "" || e.Detail["account"] != ""
	switch e.Kind {
	case "enrol.refused", "bootstrap.refused":
	case "admin.refused", "registry.refused":
		owned = e.Detail["account"] != ""
	default:
		return false
	}
	switch e.Outcome {
	case wire.CodeTokenUsed, wire.CodeTokenRevoked, wire.CodeBadMAC, wire.CodeTokenWrongRoute, wire.CodePlaintextSecret,
		wire.CodeTLSRequired, wire.CodeUnauthorized:
		return owned
	}
	return false
}

func (d *Service) count(e *store.Event) {
	more, err := strconv.Atoi(e.Detail["more"])
	if err != nil || more < 1 {
		more = 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.misuses[e.Tenant]
	if m == nil {
		m = &misuse{since: e.At}
		d.misuses[e.Tenant] = m
	}
	m.count += more
	m.address = e.Address
	m.code = e.Outcome
	if owner := e.Detail["account"]; e.Outcome == wire.CodeTLSRequired && owner != "" {
		m.plain = owner
		m.reader = e.Address
	}
}

// lookAtMisuses tells of each tenant's once an hour.
func (d *Service) lookAtMisuses(now time.Time) {
	for tenant, m := range d.misuses {
		if now.Sub(m.since) >= misuseFor {
			delete(d.misuses, tenant)
			continue
		}
		times := "once"
		if m.count > 1 {
			times = strconv.Itoa(m.count) + " times"
		}
		from := cmp.Or(m.address, "an unknown address")
		text := fmt.Sprintf("tokens of %s were refused %s, the last from %s with %s", cmp.Or(tenant, "the whole fleet"), times, from, m.code)
		if m.plain != "" {
			text = fmt.Sprintf("the API token of %s came over plain HTTP from %s: muster account revoke %s", m.plain,
				cmp.Or(m.reader, "an unknown address"), m.plain)
		}
		d.wrong(Fact{Condition: condition.TokenMisuse, Subject: cmp.Or(tenant, "*"), Tenant: tenant, Since: m.since, Text: text}, now)
	}
	for k, t := range d.tracks { // one of the last run lasts for its hour, too
		if k.cause == condition.TokenMisuse && t.seen != d.round && t.alert != nil && now.Sub(t.alert.Since) < misuseFor {
			t.seen = d.round
			t.tenant = t.alert.Tenant
		}
	}
}
