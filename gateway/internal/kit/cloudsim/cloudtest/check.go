package cloudtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// CheckLists asks for a list under random faults of an endpoint. A list that comes without an error must have all the machines. odd are
// answers of another form, which come with status 200.
func CheckLists(t testing.TB, s *cloudsim.Sim, endpoint string, machines int, odd []string, list func() (n int, err error)) {
	t.Helper()
	failed, whole := 0, 0
	for seed := range uint64(400) {
		f := anyFault(rand.New(rand.NewPCG(seed, 27)), odd)
		f.On = endpoint
		s.Add(f)
		switch n, err := list(); {
		case err != nil:
			failed++
		case n != machines:
			t.Errorf("seed %d, %+v: %d of %d machines, and no error", seed, f, n, machines)
		default:
			whole++
		}
		s.Heal()
	}
	if failed < 50 || whole < 20 {
		t.Errorf("%d lists failed and %d did not: that shows little", failed, whole)
	}
	if n, err := list(); n != machines || err != nil {
		t.Errorf("without a fault: %d machines, %v", n, err)
	}
}

// anyFault is a fault of a list that can be seen.
func anyFault(r *rand.Rand, odd []string) cloudsim.Fault {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	f := cloudsim.Fault{Times: 1 + r.IntN(5), Kind: one(cloudsim.Status, cloudsim.Status, cloudsim.Status, cloudsim.HTML,
		cloudsim.Truncated, cloudsim.Lost, cloudsim.Twice, cloudsim.Slow)}
	f.Status = []int{200, 200, 204, 302, 400, 401, 403, 404, 408, 410, 429, 500, 502, 503, 504}[r.IntN(15)]
	f.Text = one(append(odd, "{", "null", "[]", "{}", `"x"`, "7", " ", "too many requests", `{"success":true}`)...)
	f.Type, f.Wait = one("application/json", "application/problem+json", "text/plain", ""), time.Millisecond
	if r.IntN(2) == 0 {
		f.Header = map[string]string{"Retry-After": one("1", "3600", "-1", "x", "Wed, 21 Oct 2015 07:28:00 GMT")}
	}
	return f
}
