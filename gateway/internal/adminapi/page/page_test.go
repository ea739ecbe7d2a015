package page_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/adminapi/page"
)

// broken is a connection whose peer is gone.
type broken struct {
	*httptest.ResponseRecorder
	writes int
}

func (b *broken) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("the peer is gone")
}

// TestSend: what is sent is an api.FleetView, with any number of nodes.
func TestSend(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{}, {"gpu-1"}, {"gpu-1", strings.Repeat("x", 70_000), "gpu-3"}} {
		var rows []*api.NodeRow
		for _, name := range names {
			rows = append(rows, &api.NodeRow{Name: name})
		}
		for _, brief := range []bool{false, true} {
			w := httptest.NewRecorder()
			page.Send(w, api.FleetView{At: time.Unix(1, 0).UTC(), Next: "more"}, rows, brief)
			var got api.FleetView
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Next != "more" || got.Nodes == nil || len(got.Nodes) != len(rows) {
				t.Fatalf("%d nodes, brief %t: %v, %d nodes", len(rows), brief, err, len(got.Nodes))
			}
			for i, n := range got.Nodes {
				if n.Name != names[i] {
					t.Errorf("node %d is %.20s", i, n.Name)
				}
			}
		}
	}
}

// TestSendBroken: an answer that cannot be made or sent whole is cut, and of a fleet nothing more is encoded for a peer that is gone.
func TestSendBroken(t *testing.T) {
	t.Parallel()
	var rows []*api.NodeRow
	for range 15_000 {
		rows = append(rows, &api.NodeRow{Name: "gpu-1"})
	}
	cut := func(w http.ResponseWriter, view api.FleetView, rows []*api.NodeRow) (why any) {
		defer func() { why = recover() }()
		page.Send(w, view, rows, false)
		return nil
	}
	odd := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // a time that JSON has no text for
	for what, c := range map[string]struct {
		view api.FleetView
		rows []*api.NodeRow
	}{
		"the totals": {api.FleetView{At: odd}, rows[:2]},
		"no nodes":   {api.FleetView{At: odd}, nil},
		"a node":     {api.FleetView{}, []*api.NodeRow{{Name: "gpu-1"}, {LastSeen: &odd}, {Name: "gpu-3"}}},
	} {
		w := httptest.NewRecorder()
		if why := cut(w, c.view, c.rows); why != http.ErrAbortHandler {
			t.Errorf("%s cannot be encoded: %v, %.40s", what, why, w.Body)
		}
	}
	gone := &broken{ResponseRecorder: httptest.NewRecorder()}
	if why := cut(gone, api.FleetView{}, rows); why != http.ErrAbortHandler || gone.writes != 1 {
		t.Errorf("the peer is gone: %v after %d writes", why, gone.writes)
	}
}
