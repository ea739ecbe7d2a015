package label

import (
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/store"
)

// mostTerms bounds the terms of a selector: each is a condition of the query.
const mostTerms = 16

// ParseSelector reads a selector such as "tier=sovereign,tenant=platform,gpu!=h100,spot,!broken". A node is chosen if all terms are true. An
// empty selector has no terms and chooses all nodes. A reserved key, such as tenant, always has a value, so it needs one in a term.
func ParseSelector(selector string) ([]store.Term, error) {
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
			return nil, badSelector(fmt.Sprintf("%.80q is no term", part), selector)
		}
		if isReserved && (term.Op == store.OpExists || term.Op == store.OpAbsent) {
			return nil, badSelector(fmt.Sprintf("%q needs a value", term.Key), selector)
		}
		terms = append(terms, term)
	}
	if len(terms) > mostTerms {
		return nil, badSelector(fmt.Sprintf("more than %d terms", mostTerms), selector)
	}
	return terms, nil
}

// parseTerm reads one term. The order matters: != holds a =, and the value of a = may begin with !. Two equal signs are read as one.
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

// CheckSelector refuses a status or a state that does not exist. Otherwise a wrong word would give an empty list.
func CheckSelector(status, state string, terms []store.Term) error {
	if status != "" && !slices.Contains(wire.Statuses(), status) {
		return badWord("status", status)
	}
	if state != "" && !slices.Contains(wire.States(), state) {
		return badWord("state", state)
	}
	for _, t := range terms {
		if t.Key == "status" && !slices.Contains(wire.Statuses(), t.Value) || t.Key == "state" && !slices.Contains(wire.States(), t.Value) {
			return badWord(t.Key, t.Value)
		}
	}
	return nil
}

func badWord(key, value string) error {
	return wire.Refuse(wire.CodeBadSelector, fmt.Sprintf("%.40q is not a %s", value, key),
		"status: "+strings.Join(wire.Statuses(), ", ")+"; state: "+strings.Join(wire.States(), ", "))
}

func badSelector(what, selector string) error {
	return wire.Refuse(
		wire.CodeBadSelector, fmt.Sprintf("selector %.120q: %s", selector, what),
		"write terms such as tier=sovereign, tier!=spot, gpu, !broken, tenant=platform, status=online, with commas between")
}
