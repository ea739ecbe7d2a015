// Package maassim is a MAAS for tests: an http.Handler that answers as API 2.0 of MAAS 3.6 does, with its states, refusals and time-outs,
// and that fails when it is told to. Time is an injected clock, and passes when somebody asks, or with Tick.
package maassim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Config says how the simulated machines behave.
type Config struct {
	Now func() time.Time // nil: time.Now
	// OnBoot is called when a machine that is being deployed has fetched its user data, which makes it Deployed. It may call the simulator.
	// nil: a machine fetches nothing by itself; only Fetch does.
	OnBoot func(m Machine, userData []byte)
	// Between is called before each operation of a client, with the machine or tag that the operation names: a second client may act there.
	Between func(op, id string)

	Power      time.Duration // until a machine is switched; 0: 10 s
	Install    time.Duration // from power on until user data is fetched; 0: 5 min
	Commission time.Duration // from power on; 0: 5 min
	Erase      time.Duration // from power on; 0: 2 min
	EraseAll   bool          // MAAS's setting: each release erases
}

// MAAS's own times.
const (
	clockApart      = 300 * time.Second
	nodeTimeout     = 30 * time.Minute
	deployTimeout   = 2 * nodeTimeout
	releaseTimeout  = 5 * time.Minute
	pollPower       = 5 * time.Minute
	recomputeTags   = time.Minute
	sweepNonces     = 24 * time.Hour
	longestBody     = 10 << 20
	pathAPI         = "/MAAS/api/2.0/"
	muster          = "muster"
	versionOfMAAS   = "3.6.1"
	mostEvents      = 1000
	usualEventLimit = 100
)

// Sim is the simulator. It is safe for concurrent use.
type Sim struct {
	config Config

	mu       sync.Mutex
	users    map[string]*user
	nonces   map[string]time.Time
	machines []*Machine // in the order in which they came
	tags     map[string]*tag
	settings map[string]any
	images   []string
	events   []event
	faults   map[string][]fault
	counts   map[string]int
	made     int // machines, ever
	booted   []boot
}

// boot is a call of OnBoot that is due.
type boot struct {
	machine  Machine
	userData []byte
}

// New makes a simulator with nothing in it but the user muster, who is an admin.
func New(c Config) *Sim {
	if c.Now == nil {
		c.Now = time.Now
	}
	for usual, d := range map[*time.Duration]time.Duration{
		&c.Power: 10 * time.Second, &c.Install: 5 * time.Minute, &c.Commission: 5 * time.Minute, &c.Erase: 2 * time.Minute,
	} {
		if *usual == 0 {
			*usual = d
		}
	}
	s := &Sim{
		config: c, users: map[string]*user{}, nonces: map[string]time.Time{}, tags: map[string]*tag{}, faults: map[string][]fault{},
		counts:   map[string]int{},
		images:   []string{"ubuntu/jammy", "ubuntu/noble"},
		settings: map[string]any{"maas_name": "lab", "default_distro_series": "noble", "node_timeout": 30},
	}
	s.AddUser(muster, true)
	return s
}

// Add enlists a machine, and returns its system_id. A zero Status is New; Power is off unless it is set.
func (s *Sim) Add(m Machine) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(m).ID
}

// add gives a machine its id. Of two with one UUID, MAAS believes none.
func (s *Sim) add(m Machine) *Machine {
	const letters = "abcdefghkmnpqrstwxy34678" // of system_ids
	id := []byte("aaaaaa")
	for i, n := 5, s.made; n > 0; i, n = i-1, n/len(letters) {
		id[i] = letters[n%len(letters)]
	}
	s.made++
	m.ID, m.Since = string(id), s.config.Now()
	if m.Hostname == "" {
		m.Hostname = "host-" + m.ID
	}
	if m.Power == "" {
		m.Power = off
	}
	if m.Seen == "" {
		m.Seen = m.Power
	}
	if m.PowerType == "" {
		m.PowerType = "ipmi"
	}
	m.seenAt = m.Since
	for _, other := range s.machines {
		if m.UUID != "" && other.UUID == m.UUID {
			other.UUID, m.UUID = "", ""
		}
	}
	s.machines = append(s.machines, &m)
	return &m
}

// Machine returns a copy of a machine; false if there is none.
func (s *Sim) Machine(id string) (Machine, bool) {
	defer s.unlock()
	s.mu.Lock()
	s.tick()
	if m := s.find(id); m != nil {
		return m.copy(), true
	}
	return Machine{}, false
}

// Machines returns copies of all machines.
func (s *Sim) Machines() []Machine {
	defer s.unlock()
	s.mu.Lock()
	s.tick()
	var all []Machine
	for _, m := range s.machines {
		all = append(all, m.copy())
	}
	return all
}

// Change does to a machine what people, its firmware or chance do. A changed status is an event.
func (s *Sim) Change(id string, change func(*Machine)) {
	defer s.unlock()
	s.mu.Lock()
	s.tick()
	m := s.find(id)
	before := m.Status
	change(m)
	if now := m.Status; now != before {
		m.Status = before
		s.force(m, now, s.config.Now())
	}
}

// Remove takes a machine out. If it is enlisted again it has another system_id.
func (s *Sim) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machines = slices.DeleteFunc(s.machines, func(m *Machine) bool { return m.ID == id })
}

// Count returns how often an operation was done. A refusal does not count; an operation whose answer was lost does.
func (s *Sim) Count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// Counts returns the counts of all operations.
func (s *Sim) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Tick has the simulator look at its clock.
func (s *Sim) Tick() {
	defer s.unlock()
	s.mu.Lock()
	s.tick()
}

// Fetch plays the first start of the installed system: it fetches the user data, which makes the machine Deployed. A later start fetches it
// again.
func (s *Sim) Fetch(id string) ([]byte, error) {
	defer s.unlock()
	s.mu.Lock()
	s.tick()
	m := s.find(id)
	if m == nil || m.Power != on || m.Status != deploying && m.Status != deployed {
		return nil, fmt.Errorf("machine %s starts no installed system", id)
	}
	return s.fetch(m, s.config.Now()), nil
}

// Set changes one of MAAS's settings.
func (s *Sim) Set(name string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings[name] = value
}

// SetImages says what can be installed, such as ubuntu/noble, or custom/NAME for what people have uploaded.
func (s *Sim) SetImages(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images = names
}

func (s *Sim) find(id string) *Machine {
	for _, m := range s.machines {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// unlock unlocks, and calls OnBoot for what has booted.
func (s *Sim) unlock() {
	due := s.booted
	s.booted = nil
	s.mu.Unlock()
	for _, b := range due {
		s.config.OnBoot(b.machine, b.userData)
	}
}

var _ http.Handler = (*Sim)(nil)
