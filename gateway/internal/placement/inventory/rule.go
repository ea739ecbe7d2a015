package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
	records "muster/store/placement"
)

// rule approves slots as they are proposed.
type rule struct {
	records.Rule
	picks []label.Term
}

func (s *Service) readRules(ctx context.Context) error {
	rows, err := s.Records.Rules(ctx)
	if err != nil {
		return err
	}
	var rules []rule
	for _, row := range rows {
		picks, err := label.ParseSelector(row.Selector)
		if err != nil {
			s.Logger.Error("a rule for slots cannot be read any more: set it again", "rule", row.Name, "error", err)
			continue
		}
		rules = append(rules, rule{row, picks})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
	return nil
}

// ruleFor is who approves a slot of a node at once; empty: nobody. The caller holds the lock.
func (s *Service) ruleFor(row *api.NodeRow, shape string) string {
	for _, r := range s.rules {
		if (r.Shape == "" || r.Shape == shape) && label.Matches(r.picks, row) {
			return "rule:" + r.Name
		}
	}
	return ""
}

// SlotRules lists the rules.
func (s *Service) SlotRules(context.Context) (api.SlotRuleList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.SlotRuleList{Rules: api.Each(s.rules, shownRule)}, nil
}

func shownRule(r rule) api.SlotRule {
	return api.SlotRule{Name: r.Name, Selector: r.Selector, Shape: r.Shape, CreatedAt: r.CreatedAt.UTC(), CreatedBy: r.CreatedBy}
}

// SetSlotRule sets a rule. It approves the slots that are proposed from then on.
func (s *Service) SetSlotRule(ctx context.Context, who Caller, name string, q api.SlotRuleRequest) (api.SlotRule, error) {
	if err := wire.CheckName(name); err != nil {
		return api.SlotRule{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.80q is no name of a rule", name),
			"it has the form of a node's name")
	}
	picks, err := label.ParseSelector(q.Selector)
	switch {
	case err != nil:
		return api.SlotRule{}, err
	case len(picks) == 0:
		return api.SlotRule{}, wire.Refuse(wire.CodeBadRequest, "a rule needs a selector", "such as provider=vast_ai")
	case q.Shape != "" && !slices.Contains(api.SlotShapes(), q.Shape):
		return api.SlotRule{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no shape of a slot", q.Shape),
			"the shapes are "+strings.Join(api.SlotShapes(), ", "))
	}
	r := records.Rule{Name: name, Selector: q.Selector, Shape: q.Shape, CreatedAt: s.Now(), CreatedBy: who.By.Name}
	e := s.Event("slot.rule_set", nil, who.By, map[string]string{"rule": name, "selector": q.Selector, "shape": q.Shape})
	e.Security = true
	err = s.Records.PutRule(ctx, r, e)
	if errors.Is(err, store.ErrConflict) {
		return api.SlotRule{}, wire.Refuse(wire.CodeAlreadyThere, fmt.Sprintf("there are %d rules already", records.MostRules),
			"remove one: muster slot rules")
	}
	if err == nil {
		err = s.readRules(ctx)
	}
	return shownRule(rule{Rule: r}), err
}

// RemoveSlotRule removes a rule. The slots that it approved stay approved.
func (s *Service) RemoveSlotRule(ctx context.Context, who Caller, name string) error {
	e := s.Event("slot.rule_removed", nil, who.By, map[string]string{"rule": name})
	e.Security = true
	err := s.Records.RemoveRule(ctx, name, e)
	if errors.Is(err, store.ErrNotFound) {
		return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no rule %.80q", name), "muster slot rules")
	}
	if err != nil {
		return err
	}
	return s.readRules(ctx)
}
