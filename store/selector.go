package store

import (
	"fmt"
	"slices"
	"strings"
)

// Ops of a selector's term. The last four compare numbers: a value that is no number, or is not there, passes none of them.
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

// Term is one condition of a selector. The keys tenant, name, provider, instance_id and state are columns. The keys status and gpus are
// computed. The key tag is true of each hardware tag that a node has. All other keys are effective labels.
type Term struct {
	Key   string
	Op    string
	Value string
}

// The nodes on which the effective label passes a test. A label is effective if no label of a lower origin has its key.
const (
	withLabel = `IN (SELECT l.node_id FROM labels l WHERE l.key = ? AND `
	effective = ` AND NOT EXISTS(SELECT 1 FROM labels o WHERE o.node_id = l.node_id AND o.key = l.key AND o.origin < l.origin))`
)

// gpusOf is how many GPUs a node has, by its record, else by what it said last. The empty text: that is not known.
const gpusOf = `COALESCE(CAST(CASE WHEN n.gpus_expected > 0 OR n.gpus_said = 1 THEN n.gpus_expected
	WHEN n.retired_at IS NOT NULL OR NOT json_valid(v.hardware) THEN NULL
	WHEN json_array_length(v.hardware, '$.gpus') > 0 OR json_extract(v.hardware, '$.probe.state') IN ('ok', 'slow', 'absent')
		THEN COALESCE(json_array_length(v.hardware, '$.gpus'), 0) END AS TEXT), '')`

// column is the SQL of the key's value; "": the key is a label's. For the +, see NodeQuery.filter.
func (t Term) column() string {
	switch t.Key {
	case "tenant", "provider", "instance_id", "state":
		return "(+n." + t.Key + ")"
	case "name":
		return "(n.name)"
	case "status":
		return "(" + statusOf + ")"
	case "gpus":
		return gpusOf
	}
	return ""
}

// condition adds the condition of a term on the node n, and reports whether it needs the liveness row v.
func (t Term) condition(where *filter, ref StatusRef) (liveness bool, err error) {
	not := ""
	if t.Op == OpNotEquals || t.Op == OpAbsent {
		not = "NOT "
	}
	column := t.column()
	if t.Key == "tag" { // only = and != are asked of it
		where.and("n.id "+not+"IN (SELECT g.node_id FROM node_tags g WHERE g.tag = ?)", t.Value)
		return false, nil
	}
	if column == "" {
		test, value, err := t.test("l.value", "l.value IS NOT NULL")
		where.and("n.id "+not+withLabel+test+effective, append([]any{t.Key}, value...)...)
		return false, err
	}
	test, value, err := t.test(column, column+" <> ''") // an empty column is as an absent one
	where.and(not+"("+test+")", append(slices.Repeat(ref.args(), strings.Count(test, statusOf)), value...)...)
	return strings.Contains(column, "v."), err
}

// picksFew is true for a term with a label's value. Few nodes have it, so SQLite should search by it, and not by the tenant.
func (t Term) picksFew() bool { return t.Op == OpEquals && t.column() == "" }

// numeric is true of a text that is a number and stands so to the parameter. It says in SQL what label.Number says.
const numeric = `%[1]s GLOB '[-0-9.]*' AND substr(%[1]s, 2) NOT GLOB '*[^0-9.]*' AND %[1]s GLOB '*[0-9]*' AND %[1]s NOT GLOB '*.*.*'
	AND CAST(%[1]s AS REAL) %[2]s CAST(? AS REAL)`

// test is what the operator asks of a value, and its parameter. For != and absent it is the opposite of what they ask. there is the
// condition that there is a value.
func (t Term) test(value, there string) (test string, parameter []any, err error) {
	switch t.Op {
	case OpEquals, OpNotEquals:
		return value + " = ?", []any{t.Value}, nil
	case OpExists, OpAbsent:
		return there, nil, nil
	case OpLess, OpAtMost, OpMore, OpAtLeast:
		return fmt.Sprintf(numeric, value, t.Op), []any{t.Value}, nil
	}
	return "", nil, fmt.Errorf("selector operator %q is not one that there is", t.Op)
}
