package placement_test

import (
	"strings"
	"testing"

	"muster/store/placement"
)

// TestQueriesUseIndexes: what is asked for each claim, and again and again, reads what it is about alone.
func TestQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	_, s := open(t)
	const count = "SELECT count(*) FROM allocations a WHERE 1 AND "
	for _, c := range []struct {
		sql   string
		index []string
	}{
		{placement.TakeQuery, []string{"SEARCH s USING PRIMARY KEY", "SEARCH e USING INDEX evidence_current", "SEARCH n USING PRIMARY KEY",
			"SEARCH a USING INDEX sqlite_autoindex_allocations_1", "SEARCH h USING COVERING INDEX holds_node (node_id=? AND freed_at=?)",
			"SEARCH h USING INDEX holds_uuid"}},
		{placement.OverQuotaQuery, []string{"SEARCH h USING COVERING INDEX holds_tenant"}},
		{placement.DueQuery, []string{"USING INDEX holds_due"}},
		{"SELECT number FROM allocations a WHERE a.state = 'waiting' ORDER BY a.priority DESC, a.number", []string{"allocations_queue"}},
		{"SELECT id FROM allocations a WHERE a.state = 'allocated' AND a.ends_at <= ?", []string{"allocations_end (ends_at<?)"}},
		{count + "a.state <> 'released'", []string{"allocations_live"}},
		{count + "a.owner = ?", []string{"allocations_owner (owner=?)"}},
		{count + "a.tenant = ?", []string{"allocations_tenant (tenant=?)"}},
		{count + "a.state = 'released'", []string{"allocations_released"}},
		{count + "a.state <> 'released' AND a.state = ?", []string{"allocations_live"}},
		{count + "a.id IN (SELECT allocation FROM holds WHERE node_id = ?)", []string{"INDEX holds_node (node_id=?)"}},
		{"SELECT 1 FROM evidence WHERE node_id = ? ORDER BY number DESC LIMIT 1", []string{"evidence_node (node_id=?)"}},
		{"SELECT 1 FROM gpu_uses WHERE node_id = ? AND until >= ? ORDER BY until DESC, since DESC", []string{"USING PRIMARY KEY (node_id=?)"}},
		{"SELECT 1 FROM gpu_uses WHERE until >= ? ORDER BY until", []string{"gpu_uses_until (until>?)"}},
	} {
		rows, err := engineRows(t, s, "EXPLAIN QUERY PLAN "+c.sql, make([]any, strings.Count(c.sql, "?"))...)
		must(t, err)
		var plan strings.Builder
		for _, row := range rows {
			plan.WriteString(row[3].(string) + "\n")
		}
		for _, index := range c.index {
			if !strings.Contains(plan.String(), index) {
				t.Errorf("the plan of %s is\n%s\nwant it to have %s", c.sql, &plan, index)
			}
		}
	}
}
