package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
	records "muster/store/health"
)

// longestHold is the longest time for which an operator may want a thing to be bad before it is found.
const longestHold = 7 * 24 * time.Hour

// settings has the settings of all rules. Nobody changes it: another one takes its place.
type settings map[string][]setting

type setting struct {
	records.Setting
	terms []label.Term
}

// newSettings sorts the settings of each rule, the one that wins first. A selector with more terms wins. Of two with as many, the one wins
// that was set later.
func newSettings(rows []records.Setting) (settings, error) {
	b := settings{}
	for _, row := range rows {
		terms, err := label.ParseSelector(row.Selector)
		if err != nil {
			return nil, err
		}
		b[row.Rule] = append(b[row.Rule], setting{row, terms})
	}
	for _, all := range b {
		slices.SortStableFunc(all, func(x, y setting) int {
			return cmp.Or(cmp.Compare(len(y.terms), len(x.terms)), y.SetAt.Compare(x.SetAt), strings.Compare(x.Selector, y.Selector))
		})
	}
	return b, nil
}

// of is the rule as it counts on a node, and whether it is off there. One setting counts as a whole: what it leaves out is as the rule
// has it.
func (b settings) of(r *rule, n *api.NodeRow) (counts *rule, off bool) {
	for _, s := range b[r.Name] {
		if !label.Matches(s.terms, n) {
			continue
		}
		set := *r
		if s.Limit != nil {
			set.Limit = *s.Limit
		}
		if s.For > 0 {
			set.Found.For = s.For
		}
		return &set, s.Off || set.IsUnset()
	}
	return r, r.IsUnset()
}

// Rules returns all rules with their settings. Of the settings of a rule, the one that wins comes first.
func (d *Service) Rules() []api.HealthRule { return api.Each(d.rules, d.shown) }

// shown is a rule as the API shows it.
func (d *Service) shown(r rule) api.HealthRule {
	out := api.HealthRule{Rule: r.Name, Severity: r.Severity, Subject: "node", Meaning: r.Meaning, Next: r.Next, Topic: r.Topic,
		Unit: r.Unit, FoundAfterSeconds: int(r.Found.For / time.Second), CuredAfterSeconds: int(r.Cured.For / time.Second)}
	if r.GPU {
		out.Subject = "gpu"
	}
	if r.Limit != 0 {
		out.Limit = &r.Limit
	}
	out.Settings = api.Each((*d.settings.Load())[r.Name], func(s setting) api.HealthSetting {
		return api.HealthSetting{Selector: s.Selector, Off: s.Off, Limit: s.Limit, For: api.Duration(s.For), SetAt: s.SetAt.UTC(), SetBy: s.SetBy}
	})
	return out
}

// rule finds a rule by its name; nil: there is none.
func (d *Service) rule(name string) *rule {
	for i := range d.rules {
		if d.rules[i].Name == name {
			return &d.rules[i]
		}
	}
	return nil
}

func noRule(name string) error {
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no rule of health is called %.60q", name), "muster health rules shows the names")
}

// Set switches a rule off, or sets its limit, for the nodes that a selector names. It returns the rule with all its settings.
func (d *Service) Set(ctx context.Context, s records.Setting, by store.Actor) (api.HealthRule, error) {
	r := d.rule(s.Rule)
	if r == nil {
		return api.HealthRule{}, noRule(s.Rule)
	}
	if err := r.check(s); err != nil {
		return api.HealthRule{}, err
	}
	s.SetAt = d.Now()
	s.SetBy = by.Name
	e := d.event("health.rule_set", by, map[string]string{"rule": s.Rule, "selector": s.Selector, "off": strconv.FormatBool(s.Off)})
	if s.For > 0 {
		e.Detail["for"] = s.For.String()
	}
	if s.Limit != nil {
		e.Detail["limit"] = strconv.FormatFloat(*s.Limit, 'g', -1, 64)
	}
	err := d.Records.Set(ctx, s, e)
	if errors.Is(err, store.ErrConflict) {
		return api.HealthRule{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("there are %d settings of rules already", records.MostSettings),
			"remove some with muster health unset; one selector can name many nodes")
	}
	if err != nil {
		return api.HealthRule{}, err
	}
	if err := d.readSettings(ctx); err != nil {
		return api.HealthRule{}, err
	}
	return d.shown(*r), nil
}

// check refuses a setting that says nothing, or something that the rule does not know.
func (r *rule) check(s records.Setting) error {
	terms, err := label.ParseSelector(s.Selector)
	if err != nil {
		return err
	}
	for _, t := range terms {
		if t.Key == "status" || t.Key == "state" {
			return wire.Refuse(wire.CodeBadSelector, "a rule cannot go by "+t.Key+": what it finds may change that",
				"name the nodes by their labels, tenant, provider or name")
		}
	}
	least := r.Ease // else nothing is good again
	if r.Below {
		least = 0
	}
	switch {
	case s.For < 0 || s.For > longestHold:
		return wire.Refuse(wire.CodeBadRequest, "this is no time for which a thing must be bad", "at most "+longestHold.String())
	case s.For > 0 && r.Found.For == 0:
		return wire.Refuse(wire.CodeBadRequest, "what the rule "+r.Name+" looks for is found at once", "leave out the time")
	case s.Limit == nil && !s.Off && r.IsUnset():
		return wire.Refuse(wire.CodeBadRequest, "the rule "+r.Name+" finds nothing without a limit", "send one too, as in --limit 5")
	case s.Limit == nil && !s.Off && s.For == 0:
		return wire.Refuse(wire.CodeBadRequest, "the setting says nothing", `send {"off":true} or {"limit":95}`)
	case s.Limit != nil && r.Unit == "":
		return wire.Refuse(wire.CodeBadRequest, "the rule "+r.Name+" has no limit", "it can be switched off alone")
	case s.Limit != nil && !(*s.Limit > least && *s.Limit <= r.Most): // turned round so that no NaN passes
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%g %s is no limit for the rule %s", *s.Limit, r.Unit, r.Name),
			fmt.Sprintf("more than %g and at most %g", least, r.Most))
	}
	return nil
}

// Unset drops a setting.
func (d *Service) Unset(ctx context.Context, rule, selected string, by store.Actor) error {
	if d.rule(rule) == nil {
		return noRule(rule)
	}
	err := d.Records.Unset(ctx, rule, selected, d.event("health.rule_unset", by, map[string]string{"rule": rule, "selector": selected}))
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("the rule %s has no setting for the selector %.120q", rule, selected),
			"muster health rules -o wide shows the settings")
	}
	if err != nil {
		return err
	}
	return d.readSettings(ctx)
}

// readSettings takes the settings from the database, and lets the next round close what is switched off now. One reads at a time: of two
// changes at once, the later one has to be in what is kept.
func (d *Service) readSettings(ctx context.Context) error {
	d.reading.Lock()
	defer d.reading.Unlock()
	rows, err := d.Records.Settings(ctx)
	if err != nil {
		return err
	}
	b, err := newSettings(rows)
	if err != nil {
		return err
	}
	d.settings.Store(&b)
	d.nudge(d.again)
	return nil
}
