package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// life says where every verb leads from every state. A dash is an illegal move. If a person's word makes a difference, what it
// leads to stands behind the slash.
const life = `
             commissioned ready     deploying enrolled     active      drained   unavailable             retired
accept       ready        -         -         -            -           -         -                       -
fetch        -            deploying deploying enrolled     active      drained   unavailable             -
enrol        -            enrolled  enrolled  enrolled     enrolled    drained   enrolled/unavailable    -
heartbeat    -            -         deploying active       active      drained   unavailable             -
fail         -            -         deploying unavailable  unavailable drained   unavailable             -
cure         -            -         deploying -            active      drained   active/unavailable      -
suspend      -            -         -         -            unavailable -         unavailable             -
drain        -            -         -         -            drained     drained   -                       -
resume       -            -         -         -            active      active    -/active                -
deploy       -            deploying deploying -            -           -         -                       -
redeploy     -            -         deploying -            -           deploying -                       -
decommission commissioned commissioned commissioned commissioned - commissioned commissioned             -
retire       retired      retired   retired   retired      retired     retired   retired                 retired
ban          retired      retired   retired   retired      retired     retired   retired                 retired
`

// moves reads life: by state and a person's word, where each verb leads, in the table's order.
func moves(t *testing.T) (verbs []fleet.Verb, lead map[fleet.Situation][]string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(life), "\n")
	states := strings.Fields(lines[0])
	if len(states) != 8 || len(lines) != 1+14 {
		t.Fatalf("%d states and %d lines, want 8 and 15", len(states), len(lines))
	}
	lead = map[fleet.Situation][]string{}
	for _, line := range lines[1:] {
		verb, cells, _ := strings.Cut(line, " ")
		verbs = append(verbs, fleet.Verb(verb))
		for i, cell := range strings.Fields(cells) {
			alone, withPerson, differs := strings.Cut(cell, "/")
			if !differs {
				withPerson = alone
			}
			state := fleet.State(states[i])
			lead[fleet.Situation{State: state}] = append(lead[fleet.Situation{State: state}], alone)
			lead[fleet.Situation{State: state, Person: true}] = append(lead[fleet.Situation{State: state, Person: true}], withPerson)
		}
	}
	return verbs, lead
}

// TestLife has every pair of state and verb, with and without a person's word.
func TestLife(t *testing.T) {
	verbs, lead := moves(t)
	if len(lead) != 8*2 {
		t.Fatalf("%d situations, want 16", len(lead))
	}
	for from, want := range lead {
		if len(want) != len(verbs) {
			t.Fatalf("%v: %d verbs, want %d", from, len(want), len(verbs))
		}
		var legal []string
		for i, to := range want {
			if to != "-" {
				legal = append(legal, string(verbs[i]))
			}
		}
		for i, verb := range verbs {
			got, err := fleet.Decide(from, verb)
			if want[i] == "-" {
				checkIllegal(t, from.State, verb, got, err, legal)
			} else if err != nil || string(got) != want[i] {
				t.Errorf("%s (person %v), %s: got %q, %v, want %s", from.State, from.Person, verb, got, err, want[i])
			}
		}
	}
}

// checkIllegal wants a refusal that names the state, the move, and exactly the legal ones.
func checkIllegal(t *testing.T, from fleet.State, verb fleet.Verb, got fleet.State, err error, legal []string) {
	t.Helper()
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != wire.CodeIllegalMove || got != "" {
		t.Errorf("%s, %s: got %q, %v, want illegal_move", from, verb, got, err)
		return
	}
	if !strings.Contains(refused.Message, string(from)) || !strings.Contains(refused.Message, string(verb)) {
		t.Errorf("%s, %s: the message %q does not name them", from, verb, refused.Message)
	}
	if _, named, _ := strings.Cut(refused.Hint, ": "); named != strings.Join(legal, ", ") {
		t.Errorf("%s, %s: the hint names %q, want %q", from, verb, named, strings.Join(legal, ", "))
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

// The store does not import the protocol's words. The few that it has must be the same.
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
