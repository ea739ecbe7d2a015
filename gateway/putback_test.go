package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/store/rqlite/rqlitetest"
)

// TestStorePutBack: nodes of rqlite that a person has put back to an earlier state end the active gateway. No gateway that has seen the
// later state takes over, and none starts with it.
func TestStorePutBack(t *testing.T) {
	t.Parallel()
	n := rqlitetest.New(t)
	var beat int
	do := func(text string, args ...any) {
		t.Helper()
		if _, err := n.DB.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	putBack(t, newSeveral(t, rqlitetest.Serve(t, n)), func() {
		if err := n.DB.QueryRow("SELECT beat FROM lease").Scan(&beat); err != nil {
			t.Fatal(err)
		}
	}, func() { do("UPDATE lease SET beat = ?", beat) })
}

func putBack(t *testing.T, s *several, save, back func()) {
	plain := free(t)
	a := s.begin("gw1")
	a.active("gw1")
	b := s.begin("gw2", "--plain-listen", plain)
	ready(t, plain, `{"role":"standby","status":"ready"}`)
	save()
	a.says("a token is made", func(string) bool { return true }, "token", "create", "-o", "json")
	<-time.After(5 * time.Second) // both write down what they have seen
	back()
	refused := func(m *member) bool {
		return strings.Contains(m.now().text(), "is a copy from before") && strings.Contains(m.now().text(), "muster restore")
	}
	for end := time.Now().Add(patience); !refused(a) || !refused(b); <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the store is taken as it was before\n%s\n%s", a.now().text(), b.now().text())
		}
	}
	<-a.now().done // started again by itself
	if code := a.now().cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("a gateway starts and ends with %d:\n%s", code, a.now().text())
	}
	r, err := http.Get("http://" + plain + wire.PathReady)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the other one says %s", r.Status)
	}
	fresh := s.begin("gw3") // has seen nothing
	fresh.active("gw3")
	if err := os.Remove(a.data + "/muster.seen"); err != nil {
		t.Fatal(err)
	}
	a.run()
	a.active("gw3")
}
