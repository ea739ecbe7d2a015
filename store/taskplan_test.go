package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"muster/store"
)

// TestQueriesUseIndexes: what every claim and every sweep asks looks at open tasks alone, and at those of one node where it can. What is
// looked for again and again among the certificates does not read all of them either.
func TestQueriesUseIndexes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	must(t, openAt(t, path).Close())
	db := raw(t, path)
	plan := func(sql string) string {
		rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+sql, make([]any, strings.Count(sql, "?"))...)
		must(t, err)
		var all []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			must(t, rows.Scan(&id, &parent, &unused, &detail))
			all = append(all, detail)
		}
		must(t, errors.Join(rows.Err(), rows.Close()))
		return strings.Join(all, "\n")
	}
	want := []struct{ sql, index string }{
		{store.ClaimableQuery, "SEARCH t USING INDEX tasks_open"},
		{store.ClaimableQuery, "SEARCH o USING INDEX tasks_taken (node_id=? AND type=?)"},
		{store.ClaimableQuery, "SEARCH o USING INDEX tasks_open (node_id=? AND number<?)"},
		{store.ClaimableQuery, "SEARCH o USING INDEX tasks_subject (node_id=? AND subject=? AND number>?)"},
		{store.WaitingQuery(), "SEARCH tasks USING INDEX tasks_open (node_id=?)"},
	}
	for index, sql := range store.CertificateQueries() {
		want = append(want, struct{ sql, index string }{sql, "USING INDEX " + index})
	}
	for i, sql := range store.TaskSweepQueries() {
		index := []string{"tasks_expiry", "tasks_begun", "tasks_expiry", "tasks_begun", "tasks_begun", "tasks_begun"}[i]
		want = append(want, struct{ sql, index string }{sql, "USING INDEX " + index})
	}
	for _, w := range want {
		if got := plan(w.sql); !strings.Contains(got, w.index) {
			t.Errorf("the plan of %s is\n%s\nwant it to have %s", w.sql, got, w.index)
		}
	}
}
