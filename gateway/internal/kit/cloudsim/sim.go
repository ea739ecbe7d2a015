// Package cloudsim has what the simulators of companies that rent machines have in common: the life of a machine, what it costs by the
// company's own clock, keys, and faults that can be switched on. The packages below it speak the wire forms of one company each.
//
// A simulator has no goroutines. What is due happens when somebody calls it, or calls Tick. Machines are no machines: OnStart may start a
// process for one.
package cloudsim

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// States of a Machine. Each simulator has its own words for them.
const (
	Loading = "loading"
	Running = "running"
	Stopped = "stopped"
	Exited  = "exited"  // its process died
	Offline = "offline" // its host is gone
	Ending  = "ending"
	Gone    = "gone"
)

// Config says how a simulator behaves. With the zero value, machines run at once.
type Config struct {
	Now  func() time.Time    // nil: time.Now
	Keys map[string][]string // API keys and their scopes; none: it may do all

	Boot time.Duration // from an order to a machine that runs
	Halt time.Duration // from the order to stop to its end
	End  time.Duration // from the order to destroy to its end

	// Limits makes the simulator refuse calls that come too soon, as the company does.
	Limits bool

	// OnStart is called with a machine that begins to run, OnStop with one that stops running, and OnDestroy with one that is gone. They
	// are called one after the other, and may call the simulator. nil: nobody is told.
	OnStart, OnStop, OnDestroy func(Machine)

	// OnCall is called before a call is done. It may change what is there; nil: nobody is told.
	OnCall func(endpoint string)
}

// Machine is a rented machine.
type Machine struct {
	ID     string
	Name   string // as it was given
	Offer  string // that was rented
	Script string // what it runs at its start
	Image  string
	Env    map[string]string // what its processes have in their environment
	Disk   int               // how often it got another one, which is empty

	Host   string
	Region string
	GPU    string
	GPUs   int
	MiB    int64 // of one GPU
	DiskGB int

	State  string
	Wanted string // Running or Stopped
	Stuck  bool   // it never gets from Loading to Running
	Outbid bool
	Bid    bool

	Running, Storage int64 // millionths of a dollar an hour, while it runs and while its disk is kept

	CreatedAt, StartedAt, EndsAt time.Time // EndsAt: when the company stops it; zero: never

	Spoilt map[string]any // fields of its row that are not as they should be; nil: missing

	due     time.Time // when it enters next
	next    string
	charged meter
}

// Sim is what the simulators rest on. It is safe for concurrent use.
type Sim struct {
	Config
	rate func(*Machine) int64

	mu       sync.Mutex
	machines []*Machine
	lastID   int64
	faults   []*Fault
	called   map[string]int
	last     map[string]time.Time // calls of an endpoint

	telling sync.Mutex
	queue   []func() // hooks that are to be called, under mu
}

// New makes a Sim. Rate is what a machine costs in its state, in millionths of a dollar an hour.
func New(c Config, rate func(*Machine) int64) *Sim {
	if c.Now == nil {
		c.Now = time.Now
	}
	charged := func(m *Machine) int64 {
		if m.State == Gone {
			return 0
		}
		return rate(m)
	}
	return &Sim{Config: c, rate: charged, lastID: 1000, called: map[string]int{}, last: map[string]time.Time{}}
}

// With does something with the machines, after everything that is due. Nobody else touches them meanwhile. Methods marked "Only in With"
// may be called only from do.
func (s *Sim) With(do func(now time.Time)) {
	s.mu.Lock()
	now := s.Now()
	s.settle(now)
	do(now)
	s.mu.Unlock()
	s.tell()
}

// Tick lets happen what is due.
func (s *Sim) Tick() { s.With(func(time.Time) {}) }

// settle lets each machine enter what is due.
func (s *Sim) settle(now time.Time) {
	for _, m := range s.machines {
		for !m.due.IsZero() && !m.due.After(now) {
			at, state := m.due, m.next
			m.due = time.Time{}
			s.enter(m, state, at)
		}
		if m.up() && !m.EndsAt.IsZero() && !m.EndsAt.After(now) {
			m.Wanted = Stopped
			s.enter(m, Stopped, m.EndsAt)
		}
		m.charged.until(now, s.rate(m))
	}
}

// up is true for a machine that works or is about to.
func (m *Machine) up() bool { return m.State == Running || m.State == Loading }

// enter has a machine be in a state from a moment on.
func (s *Sim) enter(m *Machine, state string, at time.Time) {
	m.charged.until(at, s.rate(m))
	ran := m.State == Running
	m.State, m.due = state, time.Time{}
	if ran && state != Running {
		s.later(s.OnStop, m)
	}
	switch state {
	case Running:
		m.StartedAt, m.Outbid = at, false
		s.later(s.OnStart, m)
	case Gone:
		s.later(s.OnDestroy, m)
	}
}

// soon has a machine enter a state after a while, or at once.
func (s *Sim) soon(m *Machine, state string, now time.Time, after time.Duration) {
	if after <= 0 {
		s.enter(m, state, now)
		return
	}
	m.next, m.due = state, now.Add(after)
}

// later queues a hook.
func (s *Sim) later(hook func(Machine), m *Machine) {
	if hook != nil {
		copied := *m
		s.queue = append(s.queue, func() { hook(copied) })
	}
}

// tell calls the hooks that are queued, one after the other. Where somebody does so already, it leaves them to that one.
func (s *Sim) tell() {
	for s.telling.TryLock() {
		s.mu.Lock()
		queue := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, hook := range queue {
			hook()
		}
		s.telling.Unlock()
		if s.quiet() {
			return
		}
	}
}

func (s *Sim) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0
}

// Place begins a machine's life. It gives it an id unless it has one. Only in With.
func (s *Sim) Place(m *Machine, now time.Time) {
	if m.ID == "" {
		m.ID = s.NextID()
	}
	m.CreatedAt, m.State, m.charged.at = now, Loading, now
	s.machines = append(s.machines, m)
	if m.Wanted == Stopped {
		s.enter(m, Stopped, now)
		return
	}
	s.Restart(m, now)
}

// NextID returns an id that no machine has. It is higher than all ids before it. Only in With.
func (s *Sim) NextID() string {
	s.lastID++
	return strconv.FormatInt(s.lastID, 10)
}

// Start has a stopped machine run. Only in With.
func (s *Sim) Start(m *Machine, now time.Time) {
	if m.State == Stopped || m.State == Exited {
		s.Restart(m, now)
	}
}

// Restart has a machine boot again, with what it is to run now. Only in With.
func (s *Sim) Restart(m *Machine, now time.Time) {
	m.Wanted = Running
	s.enter(m, Loading, now)
	if !m.Stuck {
		s.soon(m, Running, now, s.Boot)
	}
}

// Stop stops a machine. Only in With.
func (s *Sim) Stop(m *Machine, now time.Time) {
	m.Wanted = Stopped
	s.soon(m, Stopped, now, s.Halt)
}

// Destroy ends a machine. Only in With.
func (s *Sim) Destroy(m *Machine, now time.Time) {
	if s.End > 0 && m.State != Ending {
		s.enter(m, Ending, now)
	}
	s.soon(m, Gone, now, s.End)
}

// Find returns a machine that is not gone; nil: there is none. Only in With.
func (s *Sim) Find(id string) *Machine {
	i := slices.IndexFunc(s.machines, func(m *Machine) bool { return m.ID == id && m.State != Gone })
	if i < 0 {
		return nil
	}
	return s.machines[i]
}

// Live returns the machines that are not gone, by age. Only in With.
func (s *Sim) Live() []*Machine {
	return slices.DeleteFunc(slices.Clone(s.machines), func(m *Machine) bool { return m.State == Gone })
}

// Machines returns copies of all machines that ever were.
func (s *Sim) Machines() []Machine {
	var all []Machine
	s.With(func(time.Time) {
		for _, m := range s.machines {
			all = append(all, *m)
		}
	})
	return all
}

// Kill has a machine's process die.
func (s *Sim) Kill(id string) bool { return s.become(id, Exited) }

// Lose has a machine's host be gone.
func (s *Sim) Lose(id string) bool { return s.become(id, Offline) }

// Recover has a lost or killed machine run again.
func (s *Sim) Recover(id string) bool { return s.become(id, Running) }

// Remove destroys a machine at once, as by somebody else.
func (s *Sim) Remove(id string) bool { return s.become(id, Gone) }

func (s *Sim) become(id, state string) (found bool) {
	s.With(func(now time.Time) {
		if m := s.Find(id); m != nil {
			found = true
			s.enter(m, state, now)
		}
	})
	return found
}

// Overbid has somebody else pay more for a machine: the machine stops, but its owner still wants it to run.
func (s *Sim) Overbid(id string) (found bool) {
	s.With(func(now time.Time) {
		if m := s.Find(id); m != nil && m.Bid {
			found, m.Outbid = true, true
			s.enter(m, Stopped, now)
		}
	})
	return found
}

// Spoil replaces a field of a machine's row by a value; nil: null.
func (s *Sim) Spoil(id, field string, value any) (found bool) {
	s.With(func(time.Time) {
		if m := s.Find(id); m != nil {
			found = true
			spoilt := map[string]any{field: value}
			for k, v := range m.Spoilt {
				if k != field {
					spoilt[k] = v
				}
			}
			m.Spoilt = spoilt
		}
	})
	return found
}

// Charged returns what a machine has cost until now, in millionths of a dollar.
func (s *Sim) Charged(id string) (sum int64) {
	s.With(func(time.Time) {
		for _, m := range s.machines {
			if m.ID == id {
				sum += m.charged.sum
			}
		}
	})
	return sum
}

// Rate returns what all machines cost an hour now, in millionths of a dollar.
func (s *Sim) Rate() (sum int64) {
	s.With(func(time.Time) {
		for _, m := range s.machines {
			sum += s.rate(m)
		}
	})
	return sum
}
