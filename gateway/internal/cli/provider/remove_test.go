package provider_test

import (
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// TestForgetMachines: before an account goes whose company cannot be asked, a person sees all that may be charged on, and says yes to that.
func TestForgetMachines(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	dead := accounts().Providers[0]
	dead.FailedAt, dead.SyncedAt, dead.Known, dead.Error = at(-3), at(-3), false, "HTTP 401: Invalid user key (key_refused)"
	g.On("GET", "providers/vast", dead)
	byHand := silentOne()
	byHand.ID, byHand.Node, byHand.Rental, byHand.Lease = "7", "", "", nil
	g.On("GET", "providers/vast/instances", providers.InstanceList{SyncedAt: at(-3), Instances: []providers.Instance{silentOne(), byHand}})
	g.On("GET", "leases", providers.LeaseList{Leases: []providers.Lease{{Provider: "vast", Instance: "39467543"},
		{Provider: "vast", Instance: "99"}}})
	g.On("GET", "rentals", providers.RentedList{Rentals: []providers.Rented{{ID: rentalID, Provider: "vast", Machines: []providers.Rental{
		{ID: "lost", Provider: "vast", State: providers.RentalIntended, PerHour: 2.5}, {ID: "other", Provider: "lab",
			State: providers.RentalIntended}, {ID: "ready", Provider: "vast", State: providers.RentalReady}}}}})
	g.On("DELETE", "providers/vast", api.Done{ID: "vast", Status: "removed"})
	code, out, _ := g.Muster("provider", "remove", "vast", "--forget-machines", "--plan")
	kit.Golden(t, "provider-remove.golden", out)
	if code != 0 || slices.ContainsFunc(g.Requests(), func(asked string) bool { return !strings.HasPrefix(asked, "GET ") }) {
		t.Errorf("a plan: %d", code)
	}
	if code, _, errs := g.Muster("provider", "remove", "vast", "--forget-machines"); code != 2 ||
		!strings.Contains(errs, "to forget the account vast, its key and 4 machines needs a yes") {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	g.Persons, g.Stdin = true, "n\n"
	if code, _, errs := g.Muster("provider", "remove", "vast", "--forget-machines"); code != 1 ||
		!strings.Contains(errs, "4 machines, which its company may charge for on and on? [y/N]") {
		t.Errorf("a no: %d %s", code, errs)
	}
	g.Requests()
	code, out, _ = g.Muster("provider", "remove", "vast", "--forget-machines", "--yes")
	asked := g.Requests()
	if code != 0 || !strings.Contains(out, "Nobody here sees its machines any more") ||
		asked[len(asked)-1] != "DELETE providers/vast?forget_machines=true" {
		t.Errorf("a yes: %d %s\n%q", code, out, asked)
	}
	if code, _, errs := g.Muster("provider", "remove", "vast", "--plan"); code != 2 || !strings.Contains(errs, "--forget-machines --plan") {
		t.Errorf("a plan of nothing: %d %s", code, errs)
	}
	g.On("DELETE", "providers/vast", &wire.ErrorDetail{Code: wire.CodeIllegalMove, Message: "the key works", Hint: "give them back"})
	if code, _, errs := g.Muster("provider", "remove", "vast", "--forget-machines", "-y"); code != 1 ||
		!strings.Contains(errs, "give them back") {
		t.Errorf("refused: %d %s", code, errs)
	}
	for _, path := range []string{"providers/vast", "providers/vast/instances", "leases", "rentals"} {
		was := g.Answers("GET", path)
		g.On("GET", path, &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "the gateway still reads"})
		g.Requests()
		code, _, errs := g.Muster("provider", "remove", "vast", "--forget-machines", "-y")
		asked := g.Requests()
		if code != 1 || !strings.Contains(errs, "still reads") || strings.HasPrefix(asked[len(asked)-1], "DELETE") {
			t.Errorf("without %s: %d %s", path, code, errs)
		}
		g.On("GET", path, was...)
	}
}
