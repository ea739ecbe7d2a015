package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"muster/store"
	"sync"
	"testing"
)

// raw opens the database beside the store.
func raw(t testing.TB, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	must(t, err)
	t.Cleanup(func() { db.Close() })
	c, err := db.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func execute(t testing.TB, c *sql.Conn, text string, args ...any) {
	t.Helper()
	_, err := c.ExecContext(t.Context(), text, args...)
	must(t, err)
}

func TestConcurrentWrites(t *testing.T) {
	s := open(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			name := fmt.Sprint("account-", i%150) // the last 50 meet names that are taken
			err := s.CreateAccount(t.Context(), store.Account{ID: fmt.Sprint("msa_", i), Name: name, CreatedAt: day()},
				store.Event{At: day(), Kind: "account.created", Tenant: name})
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	accounts, err := s.Accounts(t.Context(), "")
	must(t, err)
	events := countEvents(t, s, store.EventQuery{Limit: 1000})
	if len(accounts) != 150 || events != 150 {
		t.Errorf("got %d accounts and %d events, want 150 of each", len(accounts), events)
	}
}
