package rent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	rentals "muster/store/provider"
)

// TestNext: what a rental needs, in each state and for each thing that is known.
func TestNext(t *testing.T) {
	t.Parallel()
	asked := new(start)
	live, ending := &rentals.Lease{State: providers.LeaseLive}, &rentals.Lease{State: providers.LeaseEnding}
	online, silent := &api.NodeRow{Status: wire.StatusOnline}, &api.NodeRow{Status: wire.StatusStale}
	for _, c := range []struct {
		what  string
		state string
		asked *time.Time
		v     sight
		want  step
	}{
		{"it is on record", providers.RentalIntended, nil, sight{open: true}, order},
		{"nobody wants it any more", providers.RentalIntended, nil, sight{}, drop},
		{"the company was asked", providers.RentalIntended, asked, sight{open: true}, search},
		{"it was asked, and nobody wants it any more", providers.RentalIntended, asked, sight{}, search},
		{"it boots", providers.RentalBooting, asked, sight{open: true, lease: live, limit: 1}, rest},
		{"it boots for too long", providers.RentalBooting, asked, sight{open: true, lease: live, waited: 1, limit: 1}, fail},
		{"it is broken", providers.RentalBooting, asked, sight{open: true, lease: live, limit: 1, broken: "no image"}, fail},
		{"it boots, and nobody wants it any more", providers.RentalBooting, asked, sight{lease: live, limit: 1}, giveUp},
		{"it is heard", providers.RentalBooting, asked, sight{open: true, lease: live, limit: 1, node: online}, heard},
		{"it was heard, and is silent", providers.RentalBooting, asked, sight{open: true, lease: live, limit: 1, node: silent}, rest},
		{"its lease ends", providers.RentalBooting, asked, sight{open: true, lease: ending, limit: 1}, over},
		{"its lease has ended", providers.RentalBooting, asked, sight{open: true, limit: 1}, over},
		{"it vanished", providers.RentalBooting, asked, sight{open: true, limit: 1, gone: true}, vanish},
		{"it is checked", providers.RentalChecking, asked, sight{open: true, lease: live, accept: true}, rest},
		{"it is not to be checked", providers.RentalChecking, asked, sight{open: true, lease: live}, ready},
		{"it passed", providers.RentalChecking, asked, sight{open: true, lease: live, accept: true, checked: true, passed: true}, ready},
		{"it did not", providers.RentalChecking, asked, sight{open: true, lease: live, accept: true, checked: true}, fail},
		{"its check takes too long", providers.RentalChecking, asked, sight{open: true, lease: live, accept: true, waited: checkLimit}, fail},
		{"it is checked, and nobody wants it any more", providers.RentalChecking, asked, sight{lease: live, accept: true}, giveUp},
		{"it is ready", providers.RentalReady, asked, sight{lease: live, waited: 1000 * time.Hour}, rest},
		{"its use ends", providers.RentalReady, asked, sight{lease: ending}, rest},
		{"its use has ended", providers.RentalReady, asked, sight{}, over},
		{"it vanished in use", providers.RentalReady, asked, sight{gone: true}, over},
	} {
		if got, _ := next(rentals.Rental{State: c.state, AskedAt: c.asked}, c.v); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
}

// TestJudge: how far a request is follows from its rentals alone.
func TestJudge(t *testing.T) {
	t.Parallel()
	at := func(n int) *time.Time { return new(start.Add(time.Duration(n) * time.Minute)) }
	one := func(number int, state string) rentals.Rental {
		return rentals.Rental{Number: number, State: state, CreatedAt: start, Why: "so"}
	}
	failed := func(number, after int, instance string) rentals.Rental {
		r := one(number, providers.RentalFailed)
		r.CreatedAt, r.EndedAt, r.Instance = *at(after), at(after+1), instance
		return r
	}
	was := one(1, providers.RentalEnded)
	was.ReadyAt = at(1)
	empty := func(n int) (all []rentals.Rental) {
		for i := range n {
			all = append(all, failed(1, i, ""))
		}
		return all
	}
	for _, c := range []struct {
		what  string
		count int
		all   []rentals.Rental
		want  string // places that are open, pending, ready, lost
	}{
		{"nothing is there", 2, nil, "[{1 0} {2 0}] 0 0 0"},
		{"some are there", 3, []rentals.Rental{one(2, providers.RentalBooting), one(3, providers.RentalReady)}, "[{1 0}] 1 1 0"},
		{"one was there", 1, []rentals.Rental{was}, "[] 0 1 0"},
		{"one was ended by a person", 1, []rentals.Rental{one(1, providers.RentalEnded)}, "[] 0 0 1"},
		{"one failed", 1, []rentals.Rental{failed(1, 50, "a")}, "[{1 1}] 0 0 0"},
		{"three failed", 1, []rentals.Rental{failed(1, 50, "a"), failed(1, 52, "b"), failed(1, 54, "c")}, "[{1 3}] 0 0 0"},
		{"four failed", 1, []rentals.Rental{failed(1, 50, "a"), failed(1, 52, "b"), failed(1, 54, "c"), failed(1, 56, "d")}, "[] 0 0 1"},
		{"one is there at last", 1, []rentals.Rental{failed(1, 50, "a"), one(1, providers.RentalReady)}, "[] 0 1 0"},
		{"nine orders came to nothing", 1, empty(9), "[{1 9}] 0 0 0"},
		{"ten orders came to nothing", 1, empty(10), "[] 0 0 1"},
	} {
		p := judge(rentals.Request{Count: c.count, CreatedAt: *at(45)}, c.all, func(time.Time) time.Duration { return 0 }, "")
		if got := fmt.Sprint(p.open, p.pending, p.ready, len(p.lost)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	p := judge(rentals.Request{Count: 1, CreatedAt: start}, []rentals.Rental{failed(1, 5, "")}, start.Add(36*time.Minute).Sub, "no offers")
	if len(p.lost) != 1 || !strings.Contains(p.lost[0], "no offers") {
		t.Errorf("half an hour without an order: %+v", p)
	}
}

// TestChoose: the cheapest are taken that fit, on as many hosts as there are.
func TestChoose(t *testing.T) {
	t.Parallel()
	offer := func(id, host string, price cloud.Money, gpus int) cloud.Offer {
		return cloud.Offer{ID: id, Host: host, GPU: "H100", GPUs: gpus, Price: price * cloud.Dollar}
	}
	offers := []cloud.Offer{offer("a", "x", 3, 1), offer("b", "y", 1, 1), offer("c", "y", 1, 2), offer("d", "z", 2, 1),
		offer("free", "w", 0, 8)}
	kinds := []cloud.Offer{offer("k", "", 2, 1), offer("l", "", 3, 1)}
	for _, c := range []struct {
		what   string
		offers []cloud.Offer
		q      providers.Renting
		count  int
		bad    string
		used   []string
		want   string
	}{
		{"the cheapest", offers, providers.Renting{}, 1, "", nil, "b"},
		{"each on its own host", offers, providers.Renting{}, 3, "", nil, "b d a"},
		{"one host twice, where there is no other way", offers, providers.Renting{MoreGPUs: true}, 4, "", nil, "b d a c"},
		{"fewer than are wanted, since the rest has more GPUs", offers, providers.Renting{}, 9, "", nil, "b d a"},
		{"for no more than this", offers, providers.Renting{MaxPrice: new(2.0), MoreGPUs: true}, 3, "", nil, "b d c"},
		{"with two GPUs", offers, providers.Renting{GPUs: 2}, 3, "", nil, "c"},
		{"with a known memory", offers, providers.Renting{Memory: 80_000}, 3, "", nil, ""},
		{"not on a bad host", offers, providers.Renting{}, 3, "y", nil, "d a"},
		{"not on one in use", offers, providers.Renting{}, 1, "", []string{"y", ""}, "d"},
		{"that a person has named", offers, providers.Renting{Offers: []string{"a", "c"}, MoreGPUs: true}, 2, "y", nil, "c a"},
		{"that a person has named, with so many GPUs", offers, providers.Renting{Offers: []string{"a", "c"}, GPUs: 2}, 2, "", nil, "c"},
		{"of a kind as many as are wanted", kinds, providers.Renting{}, 3, "", []string{""}, "k k k"},
		{"each kind that a person has named", kinds, providers.Renting{Offers: []string{"k", "l"}}, 3, "", nil, "k l k"},
	} {
		o := offering{offers: c.offers, bad: map[string]string{}, used: c.used}
		if c.bad != "" {
			o.bad[c.bad] = "it did not pass"
		}
		var got []string
		for _, one := range choose(c.q, c.count, o.at(c.q)) {
			got = append(got, one.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
	}
}

// TestWantOf: a company is asked for offers within the price, but for what is chosen by id whatever it costs.
func TestWantOf(t *testing.T) {
	t.Parallel()
	for _, q := range []providers.Renting{{MaxPrice: new(2.0)}, {MaxPrice: new(2.0), Offers: []string{"a"}}} {
		if w := wantOf(q); (w.MaxPrice == 0) != (len(q.Offers) > 0) {
			t.Errorf("for %+v it wants %+v", q, w)
		}
	}
}

// TestMoney: a price is what its writer meant, to the millionth.
func TestMoney(t *testing.T) {
	t.Parallel()
	for dollars, want := range map[float64]cloud.Money{2.3: 2_300_000, 2.5: 2_500_000, 0.000001: 1, 1e6: 1e12, 0.1 + 0.2: 300_000} {
		if got := money(dollars); got != want {
			t.Errorf("%v: got %d, want %d", dollars, got, want)
		}
	}
}

// TestNamed: the same place of the same request has the same name, and no other has it.
func TestNamed(t *testing.T) {
	t.Parallel()
	names := []string{named("a", place{1, 0}), named("a", place{1, 1}), named("a", place{11, 0}), named("b", place{1, 0})}
	for _, name := range names {
		if err := wire.CheckTaskID(name); err != nil {
			t.Error(err)
		}
	}
	if again := named("a", place{1, 0}); again != names[0] || len(slices.Compact(slices.Sorted(slices.Values(names)))) != 4 {
		t.Errorf("the names are %v, and the first one again is %s", names, again)
	}
}

// TestScript: a machine joins with the command of its token, again until it works, and installs what the command needs. It is short enough
// for each company, and its token stands in no argument of a program.
func TestScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sleep": "#!/bin/sh\nexit 0\n",
		"apt-get": "#!/bin/sh\n[ \"$1\" = update ] || { printf '#!/bin/sh\\necho curl installed\\n' >" + dir +
			"/curl; /bin/chmod 755 " + dir + "/curl; }\n",
		"install": "#!/bin/sh\necho try >>" + dir + "/tries\n[ $(/usr/bin/wc -l <" + dir +
			"/tries) -ge 3 ] && curl && echo \"$MUSTER_TOKEN $*\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text := script(cloud.Lambda, "MUSTER_TOKEN=mse_1_secret "+filepath.Join(dir, "install")+" --")
	run := exec.CommandContext(t.Context(), "/bin/sh", "-s")
	run.Stdin, run.Env = strings.NewReader(text), []string{"PATH=" + dir}
	out, err := run.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "curl installed\nmse_1_secret -- --provider lambda\n") {
		t.Errorf("got %q, %v", out, err)
	}
	if len(text) > 2000 || strings.Count(text, "mse_1_secret") != 1 || strings.Contains(script(cloud.Vast, "join"), "--provider") {
		t.Errorf("the script is %s", text)
	}
}
