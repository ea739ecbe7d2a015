package cloudsim_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// clock is one that stands until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

// rate charges all while a machine runs, and its disk else.
func rate(m *cloudsim.Machine) int64 {
	if m.State == cloudsim.Running {
		return m.Running
	}
	return m.Storage
}

// TestLife: a machine boots, runs, stops, starts and ends when it is due, its hooks are told in order, and it is charged to the second.
func TestLife(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Unix(1_700_000_000, 0)}
	var told []string
	tell := func(what string) func(cloudsim.Machine) {
		return func(m cloudsim.Machine) { told = append(told, what+" "+m.ID+" "+m.State) }
	}
	s := cloudsim.New(cloudsim.Config{
		Now: c.now, Boot: time.Minute, Halt: time.Second, End: time.Second,
		OnStart: tell("start"), OnStop: tell("stop"), OnDestroy: tell("destroy"),
	}, rate)
	do := func(act func(*cloudsim.Machine, time.Time)) {
		t.Helper()
		s.With(func(now time.Time) {
			m := s.Find("7")
			if m == nil {
				t.Fatal("the machine is not there")
			}
			act(m, now)
		})
	}
	s.With(func(now time.Time) {
		s.Place(&cloudsim.Machine{ID: "7", Running: 3_600_000, Storage: 3600, Bid: true}, now)
	})
	for _, step := range []struct {
		do      func()
		wait    time.Duration
		state   string
		charged int64 // since the last step
	}{
		{func() {}, 59 * time.Second, cloudsim.Loading, 59},
		{func() {}, 2 * time.Second, cloudsim.Running, 1 + 1000},
		{func() { do(s.Stop) }, 10 * time.Second, cloudsim.Stopped, 1000 + 9},
		{func() { do(s.Start) }, time.Minute, cloudsim.Running, 60},
		{func() { s.Kill("7") }, time.Second, cloudsim.Exited, 1},
		{func() { s.Recover("7") }, time.Second, cloudsim.Running, 1000},
		{func() { s.Overbid("7") }, time.Second, cloudsim.Stopped, 1},
		{func() { s.Recover("7"); do(s.Destroy) }, 10 * time.Second, cloudsim.Gone, 1},
		{func() {}, time.Hour, cloudsim.Gone, 0},
	} {
		before := s.Charged("7")
		step.do()
		c.add(step.wait)
		s.Tick()
		m := s.Machines()[0]
		if m.State != step.state || s.Charged("7")-before != step.charged {
			t.Errorf("after %v it is %s and cost %d more, want %s and %d", step.wait, m.State, s.Charged("7")-before, step.state, step.charged)
		}
	}
	want := []string{
		"start 7 running", "stop 7 stopped", "start 7 running", "stop 7 exited", "start 7 running", "stop 7 stopped", "start 7 running",
		"stop 7 ending", "destroy 7 gone",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if s.Rate() != 0 || s.Remove("7") || s.Spoil("7", "x", 1) {
		t.Error("a machine that is gone is there")
	}
}

// TestCompanyStops: at its end a machine is stopped, and not wanted any more.
func TestCompanyStops(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Unix(1_700_000_000, 0)}
	s := cloudsim.New(cloudsim.Config{Now: c.now}, rate)
	s.With(func(now time.Time) { s.Place(&cloudsim.Machine{EndsAt: now.Add(time.Second), Running: 3_600_000}, now) })
	c.add(time.Hour)
	s.Tick()
	if m := s.Machines()[0]; m.State != cloudsim.Stopped || m.Wanted != cloudsim.Stopped || s.Charged(m.ID) != 1000 {
		t.Errorf("it is %s, wanted %s, and cost %d", m.State, m.Wanted, s.Charged(m.ID))
	}
}

// TestHooksCallTheSimulator: a hook may do that, and nobody waits for another.
func TestHooksCallTheSimulator(t *testing.T) {
	t.Parallel()
	var s *cloudsim.Sim
	var gone sync.WaitGroup
	gone.Add(20)
	s = cloudsim.New(cloudsim.Config{
		OnStart:   func(m cloudsim.Machine) { s.Remove(m.ID) },
		OnDestroy: func(cloudsim.Machine) { gone.Done() },
	}, rate)
	for range 20 {
		go s.With(func(now time.Time) { s.Place(&cloudsim.Machine{}, now) })
	}
	gone.Wait()
}

// TestFaults: each does what it says, and hits the calls that it should.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault  cloudsim.Fault
		status int
		has    string
		fails  bool // no whole answer comes
		done   bool
	}{
		{cloudsim.Fault{}, 200, "good", false, true},
		{cloudsim.Fault{Kind: cloudsim.Status}, 500, "{}", false, false},
		{cloudsim.Fault{Kind: cloudsim.Status, Status: 410, Text: `"gone"`}, 410, "gone", false, false},
		{cloudsim.Fault{Kind: cloudsim.HTML, Status: 200}, 200, "<html>", false, false},
		{cloudsim.Fault{Kind: cloudsim.Truncated}, 200, "", true, true},
		{cloudsim.Fault{Kind: cloudsim.Enormous}, 200, strings.Repeat(" ", 9<<20), false, true},
		{cloudsim.Fault{Kind: cloudsim.Slow, Wait: time.Millisecond}, 200, "good", false, true},
		{cloudsim.Fault{Kind: cloudsim.Lost}, 0, "", true, true},
		{cloudsim.Fault{Kind: cloudsim.Status, On: "another"}, 200, "good", false, true},
		{cloudsim.Fault{Kind: cloudsim.Status, On: "one", Skip: 1}, 200, "good", false, true},
	} {
		s, done := cloudsim.New(cloudsim.Config{}, rate), new(atomic.Bool)
		server := httptest.NewServer(s.Handle("one", func(*cloudsim.Call) cloudsim.Answer {
			done.Store(true)
			return cloudsim.Answer{Body: map[string]string{"it is": "good"}}
		}))
		s.Add(test.fault)
		status, body, err := get(server.URL)
		if status != test.status || !strings.Contains(body, test.has) || (err != nil) != test.fails || done.Load() != test.done {
			t.Errorf("%+v: %d, %d bytes, %v, done %v", test.fault, status, len(body), err, done.Load())
		}
		s.Heal()
		if status, _, err := get(server.URL); status != 200 || err != nil || s.Calls("one") != 2 {
			t.Errorf("%+v is not healed: %d, %v, %d calls", test.fault, status, err, s.Calls("one"))
		}
		server.Close()
	}
}

// get reads an answer.
func get(url string) (status int, body string, err error) {
	got, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return got.StatusCode, string(text), err
}

// TestTimes: a fault ends by itself.
func TestTimes(t *testing.T) {
	t.Parallel()
	s := cloudsim.New(cloudsim.Config{}, rate)
	server := httptest.NewServer(s.Handle("one", func(*cloudsim.Call) cloudsim.Answer { return cloudsim.Answer{} }))
	defer server.Close()
	s.Add(cloudsim.Fault{Kind: cloudsim.Status, Status: 503, Skip: 1, Times: 2})
	var got []int
	for range 4 {
		status, _, err := get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, status)
	}
	if !slices.Equal(got, []int{200, 503, 503, 200}) {
		t.Errorf("the statuses are %v", got)
	}
}

// TestKeysAndLimits: a key has its scopes alone, and calls that come too soon are known.
func TestKeysAndLimits(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Unix(1_700_000_000, 0)}
	s := cloudsim.New(cloudsim.Config{Now: c.now, Limits: true, Keys: map[string][]string{"all": nil, "some": {"read"}}}, rate)
	for _, test := range []struct {
		key, scope string
		known, may bool
	}{{"all", "write", true, true}, {"some", "read", true, true}, {"some", "write", true, false}, {"none", "read", false, false}} {
		if known, may := s.May(test.key, test.scope); known != test.known || may != test.may {
			t.Errorf("%s may %s: %v, %v", test.key, test.scope, known, may)
		}
	}
	for _, want := range []bool{false, true} {
		if got := s.TooSoon("list", time.Second); got != want {
			t.Errorf("too soon: %v, want %v", got, want)
		}
	}
	c.add(time.Second)
	if s.TooSoon("list", time.Second) {
		t.Error("a call in time is too soon")
	}
}
