package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
)

// NodeQuery selects nodes.
type NodeQuery struct {
	Tenant  string // "": all
	Terms   []Term // all must be true
	Status  string
	State   string
	Retired bool   // include retired nodes; the state retired, in State or in a term, includes them too
	Limit   int    // see pageLimit
	Cursor  string // from the page before
	Ref     StatusRef
}

// Nodes returns one page ordered by name and id, the cursor of the next page ("": there is none), and how many nodes the query
// selects in all. For a cursor that Nodes did not make, the error wraps ErrBadCursor.
func (s *Store) Nodes(ctx context.Context, q NodeQuery) (nodes []Node, next string, total int, err error) {
	where, liveness, err := q.filter()
	if err != nil {
		return nil, "", 0, err
	}
	counted, err := s.query(ctx, q.count(where, liveness))
	if err != nil {
		return nil, "", 0, err
	}
	r := row{Values: counted[0]}
	if total = int(r.Number()); r.Err != nil {
		return nil, "", 0, r.Err
	}
	page, err := q.page(where, liveness)
	if err != nil {
		return nil, "", 0, err
	}
	if nodes, err = all(ctx, s, readNode, page); err != nil {
		return nil, "", 0, err
	}
	if limit := int(pageLimit(q.Limit)); len(nodes) > limit { // page asks for one more: if it comes, there is a next page
		nodes = nodes[:limit]
		next = cursor(nodes[limit-1])
	}
	return nodes, next, total, nil
}

// filter returns the conditions of a query without its cursor, and whether they need the liveness rows. A + before a column keeps
// SQLite from searching by it: it then searches by a term that selects fewer nodes.
func (q NodeQuery) filter() (where filter, liveness bool, err error) {
	terms := q.Terms
	if q.State != "" {
		terms = append([]Term{{"state", OpEquals, q.State}}, terms...)
	}
	if q.Status != "" {
		terms = append([]Term{{"status", OpEquals, q.Status}}, terms...)
	}
	if !q.WithRetired() {
		where.and("n.retired_at IS NULL")
	}
	switch {
	case q.Tenant == "":
	case slices.ContainsFunc(terms, Term.picksFew):
		where.and("+n.tenant = ?", q.Tenant)
	default:
		where.and("n.tenant = ?", q.Tenant)
	}
	for _, t := range terms {
		reads, err := t.condition(&where, q.Ref)
		if err != nil {
			return filter{}, false, err
		}
		liveness = liveness || reads
	}
	return where, liveness, nil
}

// WithRetired is true if the query includes retired nodes.
func (q NodeQuery) WithRetired() bool {
	if q.Retired || q.State == StateRetired {
		return true
	}
	for _, t := range q.Terms {
		if t == (Term{"state", OpEquals, StateRetired}) {
			return true
		}
	}
	return false
}

// count counts the selected nodes. If only the tenant selects, it reads the totals: counting would read every row of a large fleet.
func (q NodeQuery) count(where filter, liveness bool) statement {
	if len(q.Terms) == 0 && q.State == "" && q.Status == "" {
		return do("SELECT COALESCE(sum(nodes), 0) FROM totals WHERE (tenant = ? OR ? = '') AND retired <= ?", q.Tenant, q.Tenant,
			flag(q.Retired))
	}
	return do("SELECT count(*) FROM nodes n"+livenessJoin(liveness)+where.sql(), where.args...)
}

// page selects and sorts ids first, which is cheap. Then it reads the whole rows of the nodes on the page alone.
func (q NodeQuery) page(where filter, liveness bool) (statement, error) {
	if q.Cursor != "" {
		name, id, err := parseCursor(q.Cursor)
		if err != nil {
			return statement{}, err
		}
		where.and("(n.name, n.id) > (?, ?)", name, id)
	}
	return do("WITH page AS (SELECT n.id FROM nodes n"+livenessJoin(liveness)+where.sql()+" ORDER BY n.name, n.id LIMIT ?) SELECT "+
		nodeColumns+" FROM page CROSS JOIN nodes n ON n.id = page.id"+nodeJoins+" ORDER BY n.name, n.id",
		append(where.args, pageLimit(q.Limit)+1)...), nil
}

func livenessJoin(needed bool) string {
	if !needed {
		return ""
	}
	return " JOIN liveness v ON v.node_id = n.id"
}

// cursor is the name and id of the last node of a page, as text. So a page stays right when nodes come or go between two pages.
func cursor(n Node) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list([]string{n.Name, n.ID})))
}

func parseCursor(text string) (name, id string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", "", fmt.Errorf("%w: start again without one", ErrBadCursor)
	}
	var place []string
	if err := json.Unmarshal(raw, &place); err != nil || len(place) != 2 {
		return "", "", fmt.Errorf("%w: start again without one", ErrBadCursor)
	}
	return place[0], place[1], nil
}
