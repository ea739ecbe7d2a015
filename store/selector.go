package store

import "fmt"

// Ops of a selector's term.
const (
	OpEquals    = "="
	OpNotEquals = "!=" // also matches nodes without the label
	OpExists    = "exists"
	OpAbsent    = "absent"
)

// Term is one condition of a selector. The keys tenant, name, provider, instance_id and state are columns. The key status is
// computed. All other keys are effective labels.
type Term struct {
	Key   string
	Op    string
	Value string
}

// condition adds the condition of a term on the node n, and reports whether it needs the liveness row v. For the +, see
// NodeQuery.filter.
func (t Term) condition(where *filter, ref StatusRef) (liveness bool, err error) {
	switch t.Key {
	case "tenant", "provider", "instance_id", "state":
		return false, t.compare(where, "+n."+t.Key)
	case "name":
		return false, t.compare(where, "n.name")
	case "status":
		return true, t.compare(where, statusOf, ref.args()...)
	default:
		return false, t.label(where)
	}
}

// picksFew is true for a term with a label's value. Few nodes have it, so SQLite should search by it, and not by the tenant.
func (t Term) picksFew() bool {
	switch t.Key {
	case "tenant", "name", "provider", "instance_id", "state", "status":
		return false
	}
	return t.Op == OpEquals
}

// compare treats an empty column as an absent one.
func (t Term) compare(where *filter, expression string, args ...any) error {
	switch t.Op {
	case OpEquals:
		where.and("("+expression+") = ?", append(args, t.Value)...)
	case OpNotEquals:
		where.and("("+expression+") <> ?", append(args, t.Value)...)
	case OpExists:
		where.and("("+expression+") <> ''", args...)
	case OpAbsent:
		where.and("("+expression+") = ''", args...)
	default:
		return fmt.Errorf("selector operator %q is not one of = != exists absent", t.Op)
	}
	return nil
}

// The nodes on which the effective label has this value, or any value. A label is effective if no label of a lower origin has its
// key.
const (
	withValue = `(SELECT l.node_id FROM labels l WHERE l.key = ? AND l.value = ?
		AND NOT EXISTS(SELECT 1 FROM labels o WHERE o.node_id = l.node_id AND o.key = l.key AND o.origin < l.origin))`
	withKey = `(SELECT l.node_id FROM labels l WHERE l.key = ? AND l.value IS NOT NULL
		AND NOT EXISTS(SELECT 1 FROM labels o WHERE o.node_id = l.node_id AND o.key = l.key AND o.origin < l.origin))`
)

func (t Term) label(where *filter) error {
	switch t.Op {
	case OpEquals:
		where.and("n.id IN "+withValue, t.Key, t.Value)
	case OpNotEquals:
		where.and("n.id NOT IN "+withValue, t.Key, t.Value)
	case OpExists:
		where.and("n.id IN "+withKey, t.Key)
	case OpAbsent:
		where.and("n.id NOT IN "+withKey, t.Key)
	default:
		return fmt.Errorf("selector operator %q is not one of = != exists absent", t.Op)
	}
	return nil
}
