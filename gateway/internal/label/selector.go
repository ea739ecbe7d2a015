package label

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// Operators of a selector's term. The last four compare numbers: a value that is no number, or is not there, passes none of them.
const (
	OpEquals    = "="
	OpNotEquals = "!=" // also matches nodes without the label
	OpExists    = "exists"
	OpAbsent    = "absent"
	OpLess      = "<"
	OpAtMost    = "<="
	OpMore      = ">"
	OpAtLeast   = ">="
)

// Term is one condition of a selector. The keys tenant, name, provider, instance_id, state, status and gpus are about the node itself. The
// key tag is true for each hardware tag that a node has. All other keys are labels.
type Term struct {
	Key   string
	Op    string
	Value string
}

// mostTerms bounds the terms of a selector: each is looked at for every node.
const mostTerms = 16

// ParseSelector reads a selector such as "tier=sovereign,tenant=platform,gpu!=h100,spot,!broken,price_per_hour<2,gpus>=4". A node is
// chosen if all terms are true. An empty selector has no terms and chooses all nodes. A reserved key, such as tenant, needs a value in a
// term: it is always there.
func ParseSelector(selector string) ([]Term, error) {
	if selector == "" {
		return nil, nil
	}
	var terms []Term
	for _, part := range strings.Split(selector, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, badSelector("an empty term", selector)
		}
		term := parseTerm(part)
		if what := wrongTerm(term, part); what != "" {
			return nil, badSelector(what, selector)
		}
		if n := len(terms); n > 0 && isComparison(terms[n-1].Op) && term.Op == OpExists && strings.Trim(part, "0123456789") == "" {
			return nil, badSelector(fmt.Sprintf("%q is no number: write it with a dot", terms[n-1].Value+","+part), selector)
		}
		terms = append(terms, term)
	}
	if len(terms) > mostTerms {
		return nil, badSelector(fmt.Sprintf("more than %d terms", mostTerms), selector)
	}
	return terms, nil
}

// wrongTerm says what is wrong with a term; "": nothing.
func wrongTerm(term Term, part string) string {
	isReserved := wire.IsReserved(term.Key)
	_, isNumber := Number(term.Value)
	switch {
	case !isReserved && wire.CheckLabelKey(term.Key) != nil, !wire.LabelValue(term.Value):
		return fmt.Sprintf("%.80q is no term", part)
	case isReserved && (term.Op == OpExists || term.Op == OpAbsent):
		return fmt.Sprintf("%q needs a value", term.Key)
	case strings.HasPrefix(part, term.Key+"=<"), strings.HasPrefix(part, term.Key+"=>"):
		return fmt.Sprintf("%.80q is no term: write <= or >=", part)
	case (isComparison(term.Op) || term.Key == "gpus") && !isNumber:
		return fmt.Sprintf("%.80q compares numbers, and %.80q is no number", part, term.Value)
	case term.Key == "tag" && isComparison(term.Op):
		return fmt.Sprintf("%.80q compares numbers, and a tag is none", part)
	case term.Key == "gpus" && !isComparison(term.Op) && !isWhole(term.Value):
		return fmt.Sprintf("%.80q: %.80q is no whole number such as 0 or 8", part, term.Value)
	}
	return ""
}

func isComparison(op string) bool {
	return op == OpLess || op == OpAtMost || op == OpMore || op == OpAtLeast
}

// parseTerm reads one term: the first of the signs that stands in it decides. Two equal signs are read as one. There may be spaces around
// the sign of a comparison.
func parseTerm(part string) Term {
	if key, ok := strings.CutPrefix(part, "!"); ok && !strings.HasPrefix(key, "=") {
		return Term{Key: key, Op: OpAbsent}
	}
	at := max(strings.IndexAny(part, "=!<>"), 0)
	key := part[:at]
	for _, op := range []string{OpNotEquals, OpAtMost, OpAtLeast, OpLess, OpMore, "==", OpEquals} {
		value, found := strings.CutPrefix(part[at:], op)
		switch {
		case !found:
			continue
		case isComparison(op):
			return Term{Key: strings.TrimSpace(key), Op: op, Value: strings.TrimSpace(value)}
		case op == "==":
			op = OpEquals
		}
		return Term{Key: key, Op: op, Value: value}
	}
	return Term{Key: part, Op: OpExists}
}

// Number reads a text as selectors compare it: digits, maybe with a dot among them and a minus before them.
func Number(text string) (number float64, ok bool) {
	if strings.Trim(strings.TrimPrefix(text, "-"), "0123456789.") != "" {
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil
}

// isWhole is true for a count as it is written: the database compares a count for equality as a text.
func isWhole(text string) bool {
	n, err := strconv.ParseUint(text, 10, 31)
	return err == nil && strconv.FormatUint(n, 10) == text
}

// CheckSelector refuses a status or a state that does not exist. Otherwise a wrong word would give an empty list.
func CheckSelector(status, state string, terms []Term) error {
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
		"write terms such as tier=sovereign, tier!=spot, gpu, !broken, tenant=platform, status=online, 'price_per_hour<2', 'gpus>=4', "+
			"with commas between and quotes around")
}
