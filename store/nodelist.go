package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"muster/store/engine"
)

// NodeQuery asks for a page of nodes.
type NodeQuery struct {
	Tenant  string // "": all
	Retired bool   // include retired nodes
	Limit   int    // see engine.PageLimit
	Cursor  string // from the previous page
}

// Nodes returns one page ordered by name and id, the cursor of the next page ("": there is none), and how many nodes there are in all.
// For a cursor that Nodes did not make, the error wraps ErrBadCursor.
func (s *Store) Nodes(ctx context.Context, q NodeQuery) (nodes []Node, next string, total int, err error) {
	counted, err := s.query(ctx, do("SELECT COALESCE(sum(nodes), 0) FROM totals WHERE (tenant = ? OR ? = '') AND retired <= ?", q.Tenant,
		q.Tenant, flag(q.Retired)))
	if err != nil {
		return nil, "", 0, err
	}
	r := row{Values: counted[0]}
	if total = int(r.Number()); r.Err != nil {
		return nil, "", 0, r.Err
	}
	page, err := q.page()
	if err != nil {
		return nil, "", 0, err
	}
	if nodes, err = all(ctx, s, readNode, page); err != nil {
		return nil, "", 0, err
	}
	if limit := engine.PageLimit(q.Limit); len(nodes) > limit { // page asks for one more: if it comes, there is a next page
		nodes = nodes[:limit]
		next = cursor(nodes[limit-1])
	}
	return nodes, next, total, nil
}

// page selects and sorts ids first, which is cheap. Then it reads the whole rows of the nodes on the page alone.
func (q NodeQuery) page() (statement, error) {
	var where engine.Where
	if !q.Retired {
		where.And("n.retired_at IS NULL")
	}
	where.Given("n.tenant = ?", q.Tenant)
	if q.Cursor != "" {
		name, id, err := parseCursor(q.Cursor)
		if err != nil {
			return statement{}, err
		}
		where.And("(n.name, n.id) > (?, ?)", name, id)
	}
	return do("WITH page AS (SELECT n.id FROM nodes n"+where.SQL()+"ORDER BY n.name, n.id LIMIT ?) SELECT "+nodes.Columns+nodeMore+
		" FROM page CROSS JOIN nodes n ON n.id = page.id"+nodeJoins+" ORDER BY n.name, n.id",
		append(where.Args, int64(engine.PageLimit(q.Limit))+1)...), nil
}

// cursor is the name and id of the last node of a page, as text. So a page stays right when nodes come or go between two pages.
func cursor(n Node) string {
	return base64.RawURLEncoding.EncodeToString([]byte(engine.JSON([]string{n.Name, n.ID})))
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
