package rqlite_test

import (
	"strings"
	"testing"

	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// TestSilent: of three nodes that work, one that is gone and one with a proxy's page before it are told apart.
func TestSilent(t *testing.T) {
	way := ways{"127.0.0.1:1": rqlitetest.New(t), "127.0.0.1:2": rqlitetest.New(t), "127.0.0.1:3": rqlitetest.New(t)}
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, Transport: way})
	must(t, err)
	defer db.Close()
	if silent := db.Silent(t.Context()); len(silent) > 0 {
		t.Errorf("got %v", silent)
	}
	way["127.0.0.1:2"].(*rqlitetest.Node).Set(rqlitetest.Refused)
	way["127.0.0.1:3"].(*rqlitetest.Node).Set(rqlitetest.Page)
	silent := db.Silent(t.Context())
	if len(silent) != 2 || !strings.Contains(silent["127.0.0.1:2"], "refused") || !strings.Contains(silent["127.0.0.1:3"], "status 502") {
		t.Errorf("got %v", silent)
	}
}
