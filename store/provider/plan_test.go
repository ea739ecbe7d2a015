package provider_test

import (
	"strings"
	"testing"

	"muster/store/engine"
	"muster/store/provider"
)

// TestQueriesUseIndexes: what is asked for each rental, and in each round, reads what it is about alone.
func TestQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	_, s := open(t)
	const leases = "SELECT 1 FROM machine_leases WHERE 1 AND "
	counted := []string{"SEARCH s USING PRIMARY KEY (of=? AND name=?)", "SEARCH r USING INDEX rentals_instance (account=? AND instance=?)",
		"SEARCH r USING PRIMARY KEY (id=?)", "SEARCH i USING PRIMARY KEY (account=? AND id=?)",
		"SEARCH i USING INDEX provider_instances_name (name=?)", "SEARCH x USING PRIMARY KEY (id=?)"}
	for _, c := range []struct {
		sql  string
		want []string
	}{
		{provider.OverQuery(provider.OfAccount), append(counted, "SEARCH x USING PRIMARY KEY (account=?)",
			"SEARCH x USING INDEX rentals_live (account=?)", "SEARCH l USING INDEX machine_leases_live (account=?)")},
		{provider.OverQuery(provider.OfTenant), append(counted, "SEARCH x USING INDEX provider_instances_tenant (tenant=?)",
			"SCAN x USING INDEX rentals_live", "SCAN l USING INDEX machine_leases_live")},
		{provider.BlindQuery, []string{"SEARCH p USING PRIMARY KEY (name=?)", "SEARCH s USING PRIMARY KEY (of=? AND name=?)"}},
		{provider.WantedQuery, []string{"rental_requests_1 (id=?)", "SEARCH x USING INDEX rentals_place (request=?)"}},
		{provider.LiveQuery, []string{"INDEX rentals_live"}},
		{provider.LiveQuery + " AND x.account = ?", []string{"rentals_live (account=?)"}},
		{"SELECT 1 FROM rentals x WHERE 1 AND x.request = ?", []string{"rentals_request (request=?)"}},
		{"SELECT 1 FROM rentals x WHERE 1 AND x.account = ? AND x.instance = ? AND x.instance <> ''", []string{"(account=? AND instance=?)"}},
		{leases + "state <> 'ended'", []string{"machine_leases_live"}},
		{leases + "state = 'ended' AND ended_at < ? ORDER BY ended_at LIMIT ?", []string{"machine_leases_ended (ended_at<?)"}},
		{"SELECT 1 FROM rental_requests WHERE 1 AND state = 'renting' ORDER BY number DESC", []string{"rental_requests_live"}},
		{"SELECT 1 FROM rental_requests WHERE 1 AND tenant = ? ORDER BY number DESC", []string{"rental_requests_tenant (tenant=?)"}},
		{"SELECT 1 FROM rental_requests WHERE state <> 'renting' AND done_at < ?", []string{"rental_requests_done (done_at<?)"}},
		{"SELECT 1 FROM provider_instances WHERE gone_at < ? ORDER BY gone_at LIMIT ?", []string{"provider_instances_gone (gone_at<?)"}},
	} {
		rows, err := s.Records().Query(t.Context(), engine.Do("EXPLAIN QUERY PLAN "+c.sql, make([]any, strings.Count(c.sql, "?"))...))
		must(t, err)
		var plan strings.Builder
		for _, row := range rows {
			plan.WriteString(row[3].(string) + "\n")
		}
		for _, want := range c.want {
			if !strings.Contains(plan.String(), want) {
				t.Errorf("the plan of %s is\n%s\nwant it to have %s", c.sql, &plan, want)
			}
		}
	}
}
