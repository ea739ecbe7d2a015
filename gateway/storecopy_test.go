package main

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/datadir"
	"muster/store/rqlite/rqlitetest"
)

// TestStoreMoves: a gateway's database goes to rqlite, where its node is online again; a backup is restored there while two gateways run;
// and the database comes back into a directory.
func TestStoreMoves(t *testing.T) {
	t.Parallel()
	storeMoves(t, newSeveral(t, rqlitetest.Serve(t, rqlitetest.New(t))))
}

func storeMoves(t *testing.T, s *several) {
	h := newHouse(t, "--master-key-file", s.key)
	h.agent("a", h.token())
	h.until("the node is online", func() bool { return h.online("a") })
	h.gateway.stop()
	move := func(from, to string) string { return h.muster("store", "copy", from, to, "--master-key-file", s.key) }
	if out := move(h.data, s.store); !strings.Contains(out, "all counted") {
		t.Errorf("got %s", out)
	}
	if out := move(h.data, s.store); !strings.Contains(out, "already") {
		t.Errorf("got %s", out)
	}

	twin := filepath.Join(t.TempDir(), "twin")
	move(s.store, twin)
	if there, back := tables(t, h.data), tables(t, twin); there != back || len(there) < 1000 {
		t.Errorf("what came back differs:\n%s\n%s", there, back)
	}

	// No gateway takes a store over whose database works in a directory: it goes back first.
	h.muster("store", "copy", twin, s.store, "--master-key-file", s.key, "--force")
	own := h.args
	h.args = append(own[:len(own):len(own)], "--store", s.store, "--gateway-id", "gw1", "--peer-listen", free(t))
	a := &member{house: h, id: "gw1"}
	t.Cleanup(func() { a.now().kill() })
	a.run()
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.over = true
	})
	a.active("gw1")
	a.online(1)
	b := s.begin("gw2")
	b.active("gw1")
	a.refuses("is the active gateway on this store", "store", "copy", s.store, filepath.Join(h.data, "none"), "--master-key-file", s.key)

	file := filepath.Join(t.TempDir(), "backup.tar")
	b.says("a backup is made", func(string) bool { return true }, "backup", file) // through the one that stands by
	since := a.says("a token is made", func(string) bool { return true }, "token", "create", "-o", "json")
	restore := []string{"restore", file, "--store", s.store, "--master-key-file", s.key}
	a.refuses("add --force", restore...)
	if out := a.muster(append(restore, "--force")...); !strings.Contains(out, s.store+" is as it was on ") {
		t.Errorf("got %s", out)
	}
	a.says("it is as it was", func(out string) bool {
		return strings.Contains(out, "gateway.restored") && strings.Count(out, "token.created") == 1
	},
		"audit")
	for end := time.Now().Add(patience); a.lost()+b.lost() == 0; <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the active gateway does not end: %s", since)
		}
	}
	a.listed("two gateways run", func(l api.GatewayList) bool { return len(l.Gateways) == 2 })
	a.online(1)

	a.now().stop()
	b.now().stop()
	back := filepath.Join(t.TempDir(), "back")
	if out := move(s.store, back); !strings.Contains(out, "all counted") {
		t.Errorf("got %s", out)
	}
	h.data = back
	h.args = own
	h.open()
	h.until("the node is online again", func() bool { return h.online("a") })
}

// tables are all rows of the database in a directory, without what a copy is recognised by.
func tables(t *testing.T, data string) (all string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, datadir.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	read := func(query string) (lines []string) {
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		for err == nil && rows.Next() {
			values := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			err = rows.Scan(into...)
			lines = append(lines, fmt.Sprint(values))
		}
		if err = errors.Join(err, rows.Err()); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for _, name := range read("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1") {
		name = strings.Trim(name, "[]")
		for _, line := range read(`SELECT * FROM "` + name + `" ORDER BY 1, 2`) {
			if !strings.HasPrefix(line, "[instance ") && !strings.HasPrefix(line, "[pulse ") {
				all += name + " " + line + "\n"
			}
		}
	}
	return all
}
