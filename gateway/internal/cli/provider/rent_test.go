package provider_test

import (
	"context"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// TestRent: the offers are shown, a person agrees to the most that it can cost, and each change of each machine is told once.
func TestRent(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "offers", offers())
	g.On("POST", "rentals", rentingOne(0))
	checking := rentingOne(1)
	checking.Machines[1].State, checking.Machines[1].Why = providers.RentalChecking, "its acceptance runs"
	g.On("GET", "rentals/"+rentalID, rentingOne(0), &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "it has just started"}, checking,
		rentingOne(2))
	g.Persons, g.Stdin = true, "y\n"
	code, out, errs := g.Muster("rent", "--gpu", "H100", "--count", "2", "--ttl", "8h", "--label", "batch=x", "--gpu-memory", "80",
		"--idle-end", "2h")
	asked := g.Requests()
	if code != 0 || len(asked) != 7 {
		t.Fatalf("code %d\n%s%s\n%q", code, out, errs, asked)
	}
	kit.Golden(t, "rent.golden", out)
	kit.Golden(t, "rent-progress.golden", errs)
	if want := "GET offers?count=2&gpu=H100&gpu_mib=76293&idle_seconds=7200&labels=batch%3Dx&provider=vast&" +
		"ttl_seconds=28800"; asked[1] != want {
		t.Errorf("asked %s, want %s", asked[1], want)
	}
	id := strings.SplitN(asked[2], `"`, 5)[3]
	want := `POST rentals {"id":"` + id +
		`","provider":"vast","gpu":"H100","count":2,"max_price":2.1,"gpu_mib":76293,"labels":{"batch":"x"},` +
		`"ttl_seconds":28800,"idle_seconds":7200}`
	if asked[2] != want || wire.CheckTaskID(id) != nil {
		t.Errorf("got\n%s\nwant\n%s", asked[2], want)
	}
	g.Stdin, g.Screen = "no\n", 80
	if code, _, errs := g.Muster("rent", "--gpu", "H100", "--count", "1", "--ttl", "8h"); code != 1 || !strings.HasSuffix(errs,
		"rent 1 machine of vast for 8h (4.10 an hour, at most 2.10 each),\n  and then destroy it? [y/N] muster: nothing was done\n") {
		t.Errorf("on a screen: %d %s", code, errs)
	}
	g.Screen = 0
	if code, _, errs := g.Muster("rent", "--gpu", "H100", "--count", "2", "--ttl", "8h"); code != 1 || !strings.Contains(errs,
		"nothing was done") ||
		strings.Contains(strings.Join(g.Requests(), "\n"), "POST") {
		t.Errorf("a no: %d %s", code, errs)
	}
}

// TestRentAgain: a request whose answer got lost is made again with the same id. One that failed fails the command.
func TestRentAgain(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "offers", offers())
	failed := rentingOne(0)
	failed.State, failed.Why = providers.RentedFailed, "none of them came up"
	failed.Machines[0].State, failed.Machines[0].Spent = providers.RentalFailed, some(.21)
	g.On("POST", "rentals", func() {}, failed)
	code, out, errs := g.Muster("rent", "--provider", "vast", "--gpu", "H100", "--max-price", "2.5", "--ttl", "1h", "--offer", "101",
		"--offer", "102",
		"--act", "stop", "--yes", "-o", "json")
	asked := g.Requests()
	if code != 1 || len(asked) != 3 || asked[1] != asked[2] || !strings.HasPrefix(out, `{"id":"`+rentalID) || strings.Count(out, "\n") != 1 ||
		!strings.Contains(asked[1], `"max_price":2.5,`) || !strings.Contains(asked[1], `"act":"stop","offers":["101","102"]`) ||
		!strings.HasSuffix(asked[0], "max_price=2.5&offers=101%2C102&provider=vast&ttl_seconds=3600") {
		t.Errorf("code %d\n%s%s\n%q", code, out, errs, asked)
	}
	over := offers()
	over.Refused = "account vast may cost $1 an hour"
	g.On("GET", "offers", over, over, offers())
	for _, how := range []string{"--plan", "--yes"} {
		code, out, errs := g.Muster("rent", "--provider", "vast", "--gpu", "H100", "--ttl", "1h", how)
		if code != 1 || strings.Contains(out, "Nothing was rented") || len(g.Requests()) != 1 ||
			!strings.Contains(errs, "these would not be rented: account vast may cost $1 an hour\n  hint: muster provider limit") {
			t.Errorf("what a limit does not allow, %s: %d %s%s", how, code, out, errs)
		}
	}
	g.On("POST", "rentals", &wire.ErrorDetail{Code: wire.CodeOverQuota, Message: "more than the limit", Hint: "muster provider limit"})
	if code, _, errs := g.Muster("rent", "--provider", "vast", "--gpu", "H100", "--ttl", "1h", "-y"); code != 1 ||
		!strings.Contains(errs, "muster: more than the limit\n  hint: muster provider limit\n") || len(g.Requests()) != 2 {
		t.Errorf("over the limit: %d %s", code, errs)
	}
}

// TestRentPlan: a plan rents nothing, and too few offers are said before anybody is asked.
func TestRentPlan(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	many := offers()
	for range 20 {
		many.Offers = append(many.Offers, many.Offers[2])
	}
	g.On("GET", "offers", many)
	code, out, _ := g.Muster("rent", "--gpu", "H100", "--count", "2", "--plan")
	if code != 0 || !strings.HasSuffix(out, "\n13 more: -o wide shows all\nNothing was rented.\n") || strings.Count(out, "  103 ") != 8 {
		t.Errorf("plan: %d\n%s", code, out)
	}
	g.Screen = 80
	if _, out, _ := g.Muster("rent", "--gpu", "H100", "--plan"); !strings.Contains(out, "3 of its machines passed") ||
		strings.Contains(out, "HOST") {
		t.Errorf("on a screen:\n%s", out)
	}
	g.Screen = 0
	if _, out, _ := g.Muster("rent", "--gpu", "H100", "--plan", "-o", "wide"); strings.Contains(out, "more: ") || strings.Count(out,
		"  103 ") != 21 {
		t.Errorf("wide:\n%s", out)
	}
	if _, out, _ := g.Muster("rent", "--gpu", "H100", "--plan", "-o", "json"); !strings.HasPrefix(out, `{"offers":[{"id":"101"`) {
		t.Errorf("json: %s", out)
	}
	if code, _, errs := g.Muster("rent", "--gpu", "H100", "--count", "3", "--ttl", "1h", "-y"); code != 1 ||
		!strings.Contains(errs, "2 machines of 3 can be had from vast now") || !strings.Contains(errs, "--max-price") {
		t.Errorf("too few: %d %s", code, errs)
	}
	if code, _, errs := g.Muster("rent", "--gpu", "H100", "--ttl", "1h", "--count", "3", "--offer", "404", "-y"); code != 1 ||
		!strings.Contains(errs, "the offer 404 is taken by somebody else") {
		t.Errorf("an offer that is taken: %d %s", code, errs)
	}
	dear := offers()
	dear.Offers[0].Misfit = "it is too dear"
	g.On("GET", "offers", dear, providers.OfferList{Offers: []providers.Offer{}})
	if code, _, errs := g.Muster("rent", "--gpu", "H100", "--ttl", "1h", "--offer", "101", "--max-price", "2", "-y"); code != 1 ||
		!strings.Contains(errs, "the offer 101 cannot be taken: it is too dear") {
		t.Errorf("an offer that is too dear: %d %s", code, errs)
	}
	if code, _, errs := g.Muster("rent", "--gpu", "Z9", "--ttl", "1h", "-y"); code != 1 ||
		!strings.Contains(errs, `vast offers no machine that has "Z9" in the name of its GPU`) {
		t.Errorf("a model that there is not: %d %s", code, errs)
	}
	g.Requests()
	for args, says := range map[string]string{"--ttl 1h": "--gpu H100", "--gpu H100": "--ttl 8h",
		"--gpu H100 --ttl 1h --max-price cheap": "2.50",
		"--gpu H100 --ttl 1h --max-price 0":     "2.50", "--gpu H100 --ttl 1h --act burn": "stop, destroy, keep"} {
		if code, _, errs := g.Muster(append([]string{"rent"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
	g.On("GET", "providers", accounts())
	if code, _, errs := g.Muster("rent", "--gpu", "H100", "--ttl", "1h"); code != 2 || !strings.Contains(errs,
		"--provider ACCOUNT: vast, lab, new") {
		t.Errorf("several accounts: %d %s", code, errs)
	}
	g.On("GET", "providers", providers.List{})
	if code, _, errs := g.Muster("rent", "--gpu", "H100", "--ttl", "1h"); code != 1 || !strings.Contains(errs, "muster provider add KIND") {
		t.Errorf("no account: %d %s", code, errs)
	}
	if asked := strings.Join(g.Requests(), "\n"); strings.Contains(asked, "POST") {
		t.Errorf("something was rented: %s", asked)
	}
}

// TestRentLeave: ^C leaves a request at work, and says how to look and how to give up.
func TestRentLeave(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "offers", offers())
	g.On("POST", "rentals", rentingOne(1))
	g.On("GET", "rentals/"+rentalID, rentingOne(1))
	ctx, cancel := context.WithCancel(t.Context())
	g.Pause = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	code, out, errs := g.Run(ctx, "rent", "--provider", "vast", "--gpu", "H100", "--count", "2", "--ttl", "1h", "-y")
	if code != 130 || !strings.Contains(errs,
		"\n"+rentalID+" goes on: 2 machines, 1 ready.\nmuster rent show "+rentalID+" shows it,\nmuster rent cancel ") ||
		strings.Contains(out, "rental ") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	ctx, cancel = context.WithCancel(t.Context())
	g.On("POST", "rentals", cancel)
	if code, _, errs := g.Run(ctx, "rent", "--provider", "vast", "--gpu", "H100", "--ttl", "1h", "-y"); code != 130 ||
		!strings.Contains(errs, " is being rented is not known.\n") {
		t.Errorf("before the answer: %d %s", code, errs)
	}
	g.Pause = nil
	g.On("POST", "rentals", rentingOne(1))
	g.On("GET", "rentals/"+rentalID, &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "no more"})
	if code, _, errs := g.Muster("rent", "--provider", "vast", "--gpu", "H100", "--ttl", "1h", "-y"); code != 1 || !strings.Contains(errs,
		"muster: no more") {
		t.Errorf("it may not be looked at: %d %s", code, errs)
	}
}

// TestRentals: requests are listed while a machine of theirs lives, shown, and given up.
func TestRentals(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	over := rentingOne(2)
	over.ID = "5sl5ucv6e2vnxq7a"
	over.Machines[0].State, over.Machines[1].State = providers.RentalEnded, providers.RentalFailed
	g.On("GET", "rentals", providers.RentedList{Rentals: []providers.Rented{rentingOne(1), rentingOne(2), over}})
	_, out, _ := g.Muster("rent", "ls")
	kit.Golden(t, "rent-ls.golden", out)
	if _, out, _ := g.Muster("rent", "ls", "--all", "-o", "json"); strings.Count(out, `"gpu":"H100"`) != 3 {
		t.Errorf("all: %s", out)
	}
	g.On("GET", "rentals", providers.RentedList{Rentals: []providers.Rented{over}})
	if code, _, errs := g.Muster("rent", "ls"); code != 0 || !strings.Contains(errs, "--all shows those that are given back too") {
		t.Errorf("none: %d %s", code, errs)
	}
	g.On("GET", "rentals/"+rentalID, over)
	if _, out, _ := g.Muster("rent", "show", rentalID); !strings.Contains(out, "state    done, all given back\n") {
		t.Errorf("show what is over:\n%s", out)
	}
	g.On("GET", "rentals/"+rentalID, rentingOne(1))
	if _, out, _ := g.Muster("rent", "show", rentalID); !strings.Contains(out, "next     muster rent cancel "+rentalID+"\n") {
		t.Errorf("show:\n%s", out)
	}
	g.On("DELETE", "rentals/"+rentalID, rentingOne(1), rentingOne(0))
	if _, out, _ := g.Muster("rent", "cancel",
		rentalID); out != rentalID+": no more is rented; 1 ready, which stay to the end of their leases\n" {
		t.Errorf("cancel: %s", out)
	}
	if _, out, _ := g.Muster("rent", "cancel", rentalID); !strings.Contains(out, "what was not ready is destroyed") {
		t.Errorf("cancel: %s", out)
	}
	if code, _, errs := g.Muster("rent", "cancel", "gone"); code != 1 || !strings.Contains(errs, "gone: there is no") {
		t.Errorf("one that is not there: %d %s", code, errs)
	}
}

// TestNumbers: what is rented has just so many GPUs, from one on, whatever a variable says of nodes that join.
func TestNumbers(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "offers", offers())
	for _, flag := range []string{"--gpus", "--count"} {
		for _, n := range []string{"0", "-1", "x"} {
			if code, _, errs := g.Muster("rent", "--provider", "vast", "--gpu", "H100", "--plan", flag, n); code != 2 || len(g.Requests()) > 0 {
				t.Errorf("%s %s: %d %s", flag, n, code, errs)
			}
		}
	}
	_, _, _ = g.Muster("rent", "--provider", "vast", "--gpu", "H100", "--plan", "--gpus", "3")
	if asked := g.Requests(); len(asked) != 1 || !strings.Contains(asked[0], "&gpus=3&") {
		t.Errorf("asked %q", asked)
	}
}
