package retention

import (
	"strings"
	"testing"

	"muster/store/engine"
	"muster/store/storetest"
)

// TestIndexes: what is looked for again and again must not read the whole table.
func TestIndexes(t *testing.T) {
	db := storetest.Open(t, nil).Records()
	for index, sql := range map[string]string{"certificates_ended": longEnded} {
		rows, err := db.Query(t.Context(), engine.Do("EXPLAIN QUERY PLAN "+sql, make([]any, strings.Count(sql, "?"))...))
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for _, columns := range rows {
			plan = append(plan, columns[3].(string))
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, "USING INDEX "+index) {
			t.Errorf("the plan is\n%s\nwant it to use %s", text, index)
		}
	}
}
