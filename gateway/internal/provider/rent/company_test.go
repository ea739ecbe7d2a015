package rent

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/gateway/internal/provider/cloud"
)

// What can go wrong with an order.
const (
	lost      = "lost"      // it is done, and the answer does not come
	unheard   = "unheard"   // it is not done, and no answer comes
	halfDone  = "half done" // it fails, and makes a machine all the same
	noOffer   = "no offer"
	limited   = "limited"
	overDone  = "limited, and done" // it is asked too often, and makes a machine all the same
	refusing  = "refusing"
	twice     = "twice" // it makes two machines, and tells of one
	noID      = "no id" // it is done, and the answer names no machine
	crashed   = "crashed"
	crashedIn = "crashed in it" // it is done, and the gateway stops
)

// company is one whose machines are in memory, and whose answers go wrong as a test wants.
type company struct {
	now      func() time.Time
	onCreate func(cloud.Order) // sees each order that is done, before it is

	mu       sync.Mutex
	machines map[string]*machine
	made     int
	offers   []cloud.Offer
	fails    map[string]error // by call, until it is changed
	deaf     bool             // it says that it destroys, and does not
	late     bool             // lists show a machine that was started as it was
	lag      time.Duration    // for which lists leave out what is new
	next     []string         // faults of the next orders
	rng      *rand.Rand       // nil: nothing goes wrong by chance
	wild     bool             // whether it does now
	orders   []cloud.Order    // that came
	ended    []string         // ids that were to be stopped or destroyed
}

type machine struct {
	cloud.Instance
	order  cloud.Order
	twin   bool // it was made beside the one that was told of
	madeAt time.Time
}

func (c *company) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// chance is true for one of n, where things go wrong by chance. The caller holds the lock.
func (c *company) chance(n int) bool { return c.wild && c.rng.IntN(n) == 0 }

// trouble is what a call that changes nothing may run into. The caller holds the lock.
func (c *company) trouble(call string) error {
	switch {
	case c.chance(60):
		runtime.Goexit() // the gateway stops
	case c.chance(12):
		return &cloud.Error{Kind: cloud.Unclear, Text: "unexpected EOF"}
	case c.chance(40):
		return &cloud.Error{Kind: cloud.Limited, Status: 429, Text: "too many requests"}
	}
	return c.fails[call]
}

func (c *company) List(_ context.Context, take func([]cloud.Instance)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.trouble("list"); err != nil {
		take(nil) // some pages came
		return err
	}
	var all []cloud.Instance
	for _, m := range c.machines {
		if c.now().Sub(m.madeAt) >= c.lag {
			all = append(all, m.Instance)
		}
	}
	take(all)
	return nil
}

func (c *company) Get(_ context.Context, id string) (cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.trouble("get"); err != nil {
		return cloud.Instance{}, err
	}
	if m := c.machines[id]; m != nil {
		return m.Instance, nil
	}
	return cloud.Instance{}, &cloud.Error{Kind: cloud.NoSuch, Status: 404, Text: "no such instance"}
}

func (c *company) Start(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails["start"] == nil && !c.late {
		c.machines[id].State = cloud.Running
	}
	return c.fails["start"]
}

func (c *company) Stop(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, id)
	if c.machines[id] != nil {
		c.machines[id].State = cloud.Stopped
	}
	return c.trouble("stop")
}

func (c *company) Destroy(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, id)
	err := c.trouble("destroy")
	if err != nil && c.chance(2) || err == nil && !c.deaf && !c.chance(4) {
		delete(c.machines, id)
	}
	if c.chance(30) {
		runtime.Goexit()
	}
	return err
}

func (c *company) Offers(_ context.Context, w cloud.Want) ([]cloud.Offer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.trouble("offers"); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(c.offers), func(o cloud.Offer) bool { return !strings.Contains(o.GPU, w.GPU) }), nil
}

func (c *company) Rejoin(context.Context, string, string) error { return nil }

func (c *company) Create(_ context.Context, o cloud.Order) (string, error) {
	c.onCreate(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders = append(c.orders, o)
	switch fault := c.fault(); fault {
	case unheard:
		return "", &cloud.Error{Kind: cloud.Unclear, Text: "connection reset"}
	case noOffer:
		return "", &cloud.Error{Kind: cloud.NoOffer, Status: 410, Text: "no_such_ask"}
	case limited:
		return "", &cloud.Error{Kind: cloud.Limited, Status: 429, Text: "slow down", Again: time.Minute}
	case refusing:
		return "", &cloud.Error{Kind: cloud.Refused, Status: 400, Text: "the order names no image"}
	case crashed:
		runtime.Goexit()
		return "", nil
	default:
		return c.make(o, fault)
	}
}

// fault is what goes wrong with the next order. The caller holds the lock.
func (c *company) fault() string {
	if len(c.next) > 0 {
		fault := c.next[0]
		c.next = c.next[1:]
		return fault
	}
	all := []string{lost, unheard, halfDone, noOffer, limited, twice, noID, crashed, crashedIn, "", "", "", "", ""}
	if c.wild {
		return all[c.rng.IntN(len(all))]
	}
	return ""
}

// make makes what an order asks for. The caller holds the lock.
func (c *company) make(o cloud.Order, fault string) (string, error) {
	id := c.add(o)
	switch fault {
	case lost:
		return "", &cloud.Error{Kind: cloud.Unclear, Text: "unexpected EOF"}
	case overDone:
		return "", &cloud.Error{Kind: cloud.Limited, Status: 429, Text: "slow down", Again: time.Minute}
	case halfDone:
		c.machines[id].State = cloud.Stopped
		return "", &cloud.Error{Kind: cloud.Refused, Status: 400, Text: "the bid is too low", Instance: id}
	case twice:
		c.machines[c.add(o)].twin = true
	case noID:
		return "", nil
	case crashedIn:
		runtime.Goexit()
	}
	return id, nil
}

func (c *company) add(o cloud.Order) string {
	c.made++
	id := fmt.Sprint(1000 + c.made)
	price := o.Offer.Price
	c.machines[id] = &machine{order: o, madeAt: c.now(), Instance: cloud.Instance{ID: id, Name: o.Name, State: cloud.Running, Raw: "running",
		Host: o.Offer.Host, GPU: o.Offer.GPU, GPUs: o.Offer.GPUs, Price: &price, Running: &price}}
	return id
}

// there are the machines that are there, by id.
func (c *company) there() []machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []machine
	for _, id := range slices.Sorted(maps.Keys(c.machines)) {
		all = append(all, *c.machines[id])
	}
	return all
}

// orderCount is how many orders came.
func (c *company) orderCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.orders)
}
