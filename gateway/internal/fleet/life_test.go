package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

var lifeEvents = []fleet.Event{
	fleet.Accept, fleet.Fetch, fleet.Enrol, fleet.Heartbeat, fleet.Fail, fleet.Cure, fleet.Suspend,
	fleet.Drain, fleet.Resume, fleet.Redeploy, fleet.Decommission, fleet.Retire, fleet.Ban,
}

// life says where every event leads from every state; a dash is an illegal move. The columns stand in the order of lifeEvents.
var life = []struct {
	state  fleet.State
	person bool
	to     string
}{
	//                             accept fetch       enrol       heartbeat   fail        cure        suspend     drain   resume redeploy  decommission retire ban
	{fleet.Commissioned, false, "ready -           -           -           -           -           -           -       -      -         commissioned retired retired"},
	{fleet.Commissioned, true, " ready -           -           -           -           -           -           -       -      -         commissioned retired retired"},
	{fleet.Ready, false, "       -     deploying   enrolled    -           -           -           -           -       -      -         -            retired retired"},
	{fleet.Ready, true, "        -     deploying   enrolled    -           -           -           -           -       -      -         -            retired retired"},
	{fleet.Deploying, false, "   -     deploying   enrolled    deploying   deploying   deploying   -           -       -      deploying -            retired retired"},
	{fleet.Deploying, true, "    -     deploying   enrolled    deploying   deploying   deploying   -           -       -      deploying -            retired retired"},
	{fleet.Enrolled, false, "    -     enrolled    enrolled    active      unavailable -           -           -       -      -         commissioned retired retired"},
	{fleet.Enrolled, true, "     -     enrolled    enrolled    active      unavailable -           -           -       -      -         commissioned retired retired"},
	{fleet.Active, false, "      -     active      enrolled    active      unavailable active      unavailable drained active -         -            retired retired"},
	{fleet.Active, true, "       -     active      enrolled    active      unavailable active      unavailable drained active -         -            retired retired"},
	{fleet.Drained, false, "     -     drained     drained     drained     drained     drained     -           drained active deploying -            retired retired"},
	{fleet.Drained, true, "      -     drained     drained     drained     drained     drained     -           drained active deploying -            retired retired"},
	{fleet.Unavailable, false, " -     unavailable enrolled    unavailable unavailable active      unavailable -       -      -         -            retired retired"},
	{fleet.Unavailable, true, "  -     unavailable unavailable unavailable unavailable unavailable unavailable -       active -         -            retired retired"},
	{fleet.Retired, false, "     -     -           -           -           -           -           -           -       -      -         -            retired retired"},
	{fleet.Retired, true, "      -     -           -           -           -           -           -           -       -      -         -            retired retired"},
}

// TestLife has every pair of state and event, with and without a person's word.
func TestLife(t *testing.T) {
	if len(life) != 8*2 {
		t.Fatalf("%d rows, want 16", len(life))
	}
	for _, row := range life {
		want := strings.Fields(row.to)
		if len(want) != len(lifeEvents) {
			t.Fatalf("%s: %d columns, want %d", row.state, len(want), len(lifeEvents))
		}
		var legal []string
		for i, to := range want {
			if to != "-" {
				legal = append(legal, string(lifeEvents[i]))
			}
		}
		for i, event := range lifeEvents {
			got, err := fleet.Decide(fleet.Situation{State: row.state, Person: row.person}, event)
			if want[i] != "-" {
				if err != nil || string(got) != want[i] {
					t.Errorf("%s (person %v), %s: got %q, %v, want %s", row.state, row.person, event, got, err, want[i])
				}
				continue
			}
			checkIllegal(t, row.state, event, got, err, legal)
		}
	}
}

// checkIllegal wants a refusal that names the state, the move, and exactly the legal ones.
func checkIllegal(t *testing.T, from fleet.State, event fleet.Event, got fleet.State, err error, legal []string) {
	t.Helper()
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != wire.CodeIllegalMove || got != "" {
		t.Errorf("%s, %s: got %q, %v, want illegal_move", from, event, got, err)
		return
	}
	if !strings.Contains(refused.Message, string(from)) || !strings.Contains(refused.Message, string(event)) {
		t.Errorf("%s, %s: the message %q does not name them", from, event, refused.Message)
	}
	if _, named, _ := strings.Cut(refused.Hint, ": "); named != strings.Join(legal, ", ") {
		t.Errorf("%s, %s: the hint names %q, want %q", from, event, named, strings.Join(legal, ", "))
	}
}

func TestUnknownState(t *testing.T) {
	if _, err := fleet.Decide(fleet.Situation{State: "lost"}, fleet.Heartbeat); code(err) != wire.CodeIllegalMove {
		t.Errorf("got %v, want illegal_move", err)
	}
	if _, err := fleet.Decide(fleet.Situation{State: fleet.Active}, "explode"); code(err) != wire.CodeIllegalMove {
		t.Errorf("got %v, want illegal_move", err)
	}
}

// The store imports nothing of the protocol's. The few words that it spells itself have to be those of everybody else.
func TestStoreSpellsTheSameWords(t *testing.T) {
	for ours, theirs := range map[string]string{
		wire.StateReady:    store.StateReady,
		wire.StateRetired:  store.StateRetired,
		wire.StatusPending: store.StatusPending,
		wire.StatusOnline:  store.StatusOnline,
		wire.StatusStale:   store.StatusStale,
	} {
		if ours != theirs {
			t.Errorf("the store says %q where the protocol says %q", theirs, ours)
		}
	}
}
