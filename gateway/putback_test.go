package main

import (
	"encoding/json"
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
	var lease [6]any // all of it: on a machine with much to do, the lease may have moved meanwhile
	do := func(text string, args ...any) {
		t.Helper()
		if _, err := n.DB.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	putBack(t, newSeveral(t, rqlitetest.Serve(t, n)), func() {
		row := n.DB.QueryRow("SELECT holder, token, next, url, fence, beat FROM lease")
		if err := row.Scan(&lease[0], &lease[1], &lease[2], &lease[3], &lease[4], &lease[5]); err != nil {
			t.Fatal(err)
		}
	}, func() {
		do("UPDATE lease SET holder = ?, token = ?, next = ?, url = ?, fence = ?, beat = ?", lease[:]...)
	})
}

func putBack(t *testing.T, s *several, save, back func()) {
	plain := map[string]string{"gw1": free(t), "gw2": free(t)}
	a := s.begin("gw1", "--plain-listen", plain["gw1"])
	a.active("gw1")
	b := s.begin("gw2", "--plain-listen", plain["gw2"])
	ready(t, plain["gw2"], `{"role":"standby","status":"ready"}`)
	save()
	a.says("a token is made", func(string) bool { return true }, "token", "create", "-o", "json")
	newer(t, a.data)
	newer(t, b.data)
	back()
	refused := func(m *member) bool {
		return strings.Contains(m.now().text(), "is a copy from before") && strings.Contains(m.now().text(), "muster restore")
	}
	for end := time.Now().Add(patience); !refused(a) || !refused(b); <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the store is taken as it was before\n%s\n%s", a.now().text(), b.now().text())
		}
	}
	select { // the active one was started again by itself
	case <-a.now().done:
	case <-b.now().done:
		a, b = b, a
	}
	if code := a.now().cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("a gateway starts and ends with %d:\n%s", code, a.now().text())
	}
	r, err := http.Get("http://" + plain[b.id] + wire.PathReady)
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

// newer waits until a gateway has written down a state of the store that is later than this call. The first two that it writes may have
// been read before, or be no later.
func newer(t *testing.T, data string) {
	t.Helper()
	type state struct{ Fence, Pulse int64 }
	var last state
	for end, changes := time.Now().Add(patience), 0; changes < 4; <-time.After(50 * time.Millisecond) {
		var now struct{ Shared state }
		text, err := os.ReadFile(data + "/muster.seen")
		if err == nil {
			err = json.Unmarshal(text, &now)
		}
		if now.Shared != last {
			last = now.Shared
			changes++
		}
		if time.Now().After(end) {
			t.Fatalf("the state of the store is not written down: %v, %s", err, text)
		}
	}
}
