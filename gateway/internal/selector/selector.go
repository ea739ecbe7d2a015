// Package selector reads how operators choose nodes: by labels, and by what the gateway itself knows of them.
package selector

import (
	"fmt"
	"strings"

	"muster/agent/wire"
	"muster/store"
)

// Parse reads "tier=sovereign,tenant=platform,gpu!=h100,spot,!broken": all terms must hold.
func Parse(selector string) ([]store.Term, error) {
	var terms []store.Term
	for _, part := range strings.Split(selector, ",") {
		part = strings.TrimSpace(part)
		if part == "" && selector != "" {
			return nil, badSelector("an empty term", selector)
		}
		if part == "" {
			break
		}
		term := parseTerm(part)
		isReserved := wire.IsReserved(term.Key)
		if !isReserved && wire.CheckLabelKey(term.Key) != nil || !wire.LabelValue(term.Value) {
			return nil, badSelector(fmt.Sprintf("%.80q", part), selector)
		}
		if isReserved && (term.Op == store.OpExists || term.Op == store.OpAbsent) {
			return nil, badSelector(fmt.Sprintf("%q needs a value", term.Key), selector)
		}
		terms = append(terms, term)
	}
	if len(terms) > 16 {
		return nil, badSelector("more than 16 terms", selector)
	}
	return terms, nil
}

func parseTerm(part string) store.Term {
	if key, value, ok := strings.Cut(part, "!="); ok {
		return store.Term{Key: key, Op: store.OpNotEquals, Value: value}
	}
	if key, value, ok := strings.Cut(part, "="); ok {
		return store.Term{Key: key, Op: store.OpEquals, Value: strings.TrimPrefix(value, "=")}
	}
	if key, ok := strings.CutPrefix(part, "!"); ok {
		return store.Term{Key: key, Op: store.OpAbsent}
	}
	return store.Term{Key: part, Op: store.OpExists}
}

func badSelector(what, selector string) error {
	return wire.Refuse(
		wire.CodeBadSelector, fmt.Sprintf("selector %.120q: %s", selector, what),
		"write terms such as tier=sovereign, tier!=spot, gpu, !broken, tenant=platform, status=online, with commas between")
}
