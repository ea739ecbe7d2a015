package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"muster/store/engine"
)

// StateRetired is the one state with a meaning in the store: the node's name is free, and lists leave the node out.
const StateRetired = "retired"

// StateReady is the state in which CreateNode stores a node, unless it is given another.
const StateReady = "ready"

// Reason is why a node is in its state. A node can have several.
type Reason struct {
	Reason string
	Person bool // a person gave it, so only a person takes it away
	Since  time.Time
	Detail string // says more to a person; "": nothing more is known
}

// Node is one machine of the fleet.
type Node struct {
	ID            string            `sql:"n.id"`
	Name          string            `sql:"n.name"` // unique among nodes that are not retired, or are banned
	Tenant        string            `sql:"n.tenant"`
	Provider      string            `sql:"n.provider"`
	InstanceID    string            `sql:"n.instance_id"`
	State         string            `sql:"n.state"`
	StateSince    time.Time         `sql:"n.state_since"`
	Reasons       []Reason          // oldest first
	Labels        map[string]string // effective: operator, then credential, then agent
	CreatedAt     time.Time         `sql:"n.created_at"`
	EnrolledAt    *time.Time        `sql:"n.enrolled_at"`
	RetiredAt     *time.Time        `sql:"n.retired_at"`
	Banned        bool              `sql:"n.banned"`
	EnrolmentID   string            `sql:"n.enrolment_id"`  // "": never enrolled
	GPUsExpected  int               `sql:"n.gpus_expected"` // the record of how many GPUs it has; 0: no record, unless GPUsSaid
	GPUsSaid      bool              // a person set GPUsExpected, which may be 0: what is seen does not raise it
	RecoveryUntil *time.Time        `sql:"n.recovery_until"`
	Recoveries    int               `sql:"n.recoveries"` // how many certificates were issued when the earlier one had expired

	LastSeen   *time.Time    `sql:"v.last_seen"`
	RunID      string        `sql:"v.run_id"`
	Counter    uint64        `sql:"v.counter"`
	SkewMillis *int64        `sql:"v.skew_ms"`
	ReportedAt *time.Time    // when it said what follows, if that is older than LastSeen; nil: it is not
	Interval   time.Duration `sql:"v.interval_ms"` // between heartbeats, as the agent says
	Address    string        `sql:"v.address"`
	Agent      string        `sql:"v.agent"` // JSON
	Cost       string        `sql:"v.cost"`  // JSON
	Notices    []string      `sql:"v.notices"`
	Hardware   string        `sql:"v.hardware"` // JSON; "": none

	// Certificate is the node's current certificate, else the pending one, else zero. Only Fingerprint, NotAfter, Generation, Status and
	// OverdueAt are filled in.
	Certificate Certificate `sql:"-"`
}

// The parts of a query for nodes: n is the node, v its liveness, k its certificate.
const (
	nodeReasons = `(SELECT json_group_array(json_array(reason, person, since, detail)) FROM reasons WHERE node_id = n.id)`
	// With min(), SQLite takes the other columns from the row that has the minimum.
	nodeLabels = `(SELECT json_group_object(key, value) FROM
		(SELECT key, value, min(origin) FROM labels WHERE node_id = n.id GROUP BY key) WHERE value IS NOT NULL)`
	nodeMore = `, ` + nodeReasons + `, ` + nodeLabels + `, CASE WHEN v.reported_at < v.last_seen THEN v.reported_at END, n.gpus_said,
		k.fingerprint, k.not_after, k.generation, k.status, k.overdue_at`
	nodeJoins = ` JOIN liveness v ON v.node_id = n.id
		LEFT JOIN certificates k ON k.fingerprint = COALESCE(` + nodeCurrent + `, ` + nodePending + `)`
	// The second condition on the status repeats the one of the index certificates_live: SQLite uses that index only then. One
	// query for both statuses would be slower, because SQLite would build a table for the IN for every node.
	nodeCurrent = `(SELECT fingerprint FROM certificates WHERE node_id = n.id AND status = 'current' AND status IN ('current', 'pending'))`
	nodePending = `(SELECT fingerprint FROM certificates WHERE node_id = n.id AND status = 'pending' AND status IN ('current', 'pending'))`
)

var nodes = engine.NewTable[Node]("nodes", "n", "")

func nodesWhere(rest string, args ...any) statement {
	return do("SELECT "+nodes.Columns+nodeMore+" FROM nodes n"+nodeJoins+" WHERE "+rest, args...)
}

func readNode(r *row) Node {
	n := nodes.Read(r)
	readMore(r, &n)
	return n
}

// readMore reads nodeMore, which follows all columns that are mapped.
func readMore(r *row, n *Node) {
	n.Reasons = readReasons(r)
	r.Document(&n.Labels)
	n.ReportedAt = r.Maybe()
	n.GPUsSaid = r.Number() == saidNumber
	n.Certificate.Fingerprint = r.Text()
	if notAfter := r.Maybe(); notAfter != nil {
		n.Certificate.NotAfter = *notAfter
	}
	n.Certificate.Generation = int(r.Number())
	n.Certificate.Status = r.Text()
	n.Certificate.OverdueAt = r.Maybe()
}

// readReasons reads what nodeReasons selects, and sorts it. Sorting in SQL is slower: SQLite sets up a sorter for every node.
func readReasons(r *row) []Reason {
	var rows []storedReason
	r.Document(&rows)
	reasons := make([]Reason, 0, len(rows))
	for _, stored := range rows {
		reasons = append(reasons, Reason(stored))
	}
	slices.SortFunc(reasons, func(a, b Reason) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Reason, b.Reason))
	})
	return reasons
}

// storedReason is a Reason as the JSON array [reason, person, since, detail].
type storedReason Reason

// UnmarshalJSON reads the array.
func (s *storedReason) UnmarshalJSON(b []byte) error {
	var person, since int64
	if err := json.Unmarshal(b, &[]any{&s.Reason, &person, &since, &s.Detail}); err != nil {
		return err
	}
	s.Person = person != 0
	s.Since = time.UnixMilli(since).UTC()
	return nil
}

// Node finds a node of a tenant ("": of any). It looks, in this order, for a node with this name that is not retired, for a node
// with this id, and for the newest retired node with this name. ErrNotFound if there is none.
func (s *Store) Node(ctx context.Context, tenant, idOrName string) (Node, error) {
	return first(ctx, s, readNode, nodesWhere(`(n.id = ? OR n.name = ?) AND (n.tenant = ? OR ? = '')
		ORDER BY n.name = ? AND n.retired_at IS NULL DESC, n.id = ? DESC, n.created_at DESC, n.id DESC LIMIT 1`,
		idOrName, idOrName, tenant, tenant, idOrName, idOrName))
}

// NodesByID returns the nodes with these ids, in no order. It leaves out ids that are not there.
func (s *Store) NodesByID(ctx context.Context, ids []string) ([]Node, error) {
	return all(ctx, s, readNode, nodesWhere("n.id IN (SELECT value FROM json_each(?))", engine.JSON(ids)))
}

// CreateNode stores a node that has not enrolled yet, in its state, or else ready. ErrConflict if the name is taken.
func (s *Store) CreateNode(ctx context.Context, n Node, operatorLabels map[string]string, events ...Event) error {
	n.State, n.StateSince = cmp.Or(n.State, StateReady), n.CreatedAt
	n.EnrolledAt, n.EnrolmentID = nil, ""
	statements := insertNode(n)
	if len(operatorLabels) > 0 {
		statements = append(statements, insertLabels(n.ID, operatorLabels, originOperator))
	}
	return s.change(ctx, statements, events)
}

// RenameNode gives a node another name. ErrConflict if the node is retired or no longer has the name from, or if the name to is taken: a
// unique index refuses that.
func (s *Store) RenameNode(ctx context.Context, nodeID, from, to string, events ...Event) error {
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND name = ? AND retired_at IS NULL)", nodeID, from),
		do("UPDATE nodes SET name = ? WHERE id = ?", to, nodeID),
	}, events)
}

// insertNode stores a node with its liveness row, and adds it to the totals. A unique index refuses a name that is taken.
func insertNode(n Node) []statement {
	return []statement{
		do(`INSERT INTO nodes(id, name, tenant, provider, instance_id, state, state_since, created_at, enrolled_at, retired_at, banned,
			enrolment_id, gpus_expected, recovery_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?, ?, NULL)`,
			n.ID, n.Name, n.Tenant, n.Provider, n.InstanceID, n.State, millis(n.StateSince), millis(n.CreatedAt), maybeMillis(n.EnrolledAt),
			n.EnrolmentID, int64(n.GPUsExpected)),
		do(`INSERT INTO liveness(node_id, last_seen, interval_ms, run_id, counter, skew_ms, address, agent, cost, notices, hardware)
			VALUES (?, NULL, 0, '', 0, NULL, ?, ?, '', ?, ?)`, n.ID, n.Address, n.Agent, engine.JSON(n.Notices), n.Hardware),
		do("INSERT INTO totals(tenant, retired, nodes) VALUES (?, 0, 1) ON CONFLICT DO UPDATE SET nodes = nodes + 1", n.Tenant),
	}
}
