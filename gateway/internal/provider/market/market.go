// Package market knows what companies rent to this fleet: their accounts, the keys of these, and of each account the last complete view of
// all its instances.
//
// A view counts only if the company gave all of it. An error, an odd answer or a missing page leaves the last view as it is, with its age.
// An instance is gone when two views lack it and the company, asked for this instance, says that it does not exist.
package market

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	usualEvery = 45 * time.Second

	knownFor = 10 * time.Minute // a view is of now for so long
)

// Dial says how an account is reached.
type Dial struct {
	URL string // of the company's API; empty: its usual one
	Key string
}

// Config says what a Service works with.
type Config struct {
	Store   *store.Store // has the keys, sealed
	Records rentals.Records
	Dial    func(kind string, d Dial) (Cloud, error) // it asks nothing yet
	Every   time.Duration                            // between two views of an account; 0: 45 seconds
	Changed func()                                   // after each view, and each change of the accounts; it must not wait. nil: nobody is told
	Rand    func() float64                           // from 0 to 1, for pauses; nil: a random one
	Now     func() time.Time                         // nil: time.Now
	Logger  *slog.Logger                             // nil: nothing is logged
}

// Seen is an instance as it was seen last. Nobody may change it.
type Seen struct {
	cloud.Instance
	Account string
	Kind    string // of the company
	Tenant  string // whose it is
	FirstAt time.Time
	SeenAt  time.Time
}

// Service has the accounts. It is safe for concurrent use.
type Service struct {
	Config
	changed  chan struct{} // the accounts did: Run starts and ends their pollers
	changing sync.Mutex    // one change of the accounts at a time

	mu       sync.RWMutex
	accounts []*account // by name; a change makes another slice
}

// account is one that is polled.
type account struct {
	turn chan struct{} // who has put something in may ask for a view
	wake chan struct{}
	stop context.CancelFunc // nil: it is not polled yet. Service.changing guards it
	done chan struct{}

	// Service.mu guards the rest.
	rentals.Account
	key   string
	cloud Cloud         // nil: it cannot be asked
	at    *time.Time    // of the view, with the reading of the steady clock where it is of this process
	seen  []*Seen       // by id; a view makes another slice
	fails int           // in a row
	again time.Duration // that the company wants us to wait
}

// Open makes a Service that goes on with the accounts and the views in the database. It asks no company yet: Run does.
func Open(ctx context.Context, c Config) (*Service, error) {
	d := &Service{Config: c, changed: make(chan struct{}, 1)}
	d.complete()
	rows, err := c.Records.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		a := newAccount(row)
		if a.seen, err = d.stored(ctx, a); err != nil {
			return nil, err
		}
		if err := d.unseal(ctx, a); err != nil {
			d.Logger.Error("an account cannot be used", "account", row.Name, "error", err)
		}
		d.accounts = append(d.accounts, a)
	}
	sortAccounts(d.accounts)
	return d, nil
}

func (d *Service) complete() {
	if d.Every == 0 {
		d.Every = usualEvery
	}
	if d.Changed == nil {
		d.Changed = func() {}
	}
	if d.Rand == nil {
		d.Rand = rand.Float64
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
}

func newAccount(row rentals.Account) *account {
	return &account{Account: row, at: row.SyncedAt, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

func sortAccounts(all []*account) {
	slices.SortFunc(all, func(a, b *account) int { return strings.Compare(a.Name, b.Name) })
}

// unseal gives an account its key.
func (d *Service) unseal(ctx context.Context, a *account) error {
	key, err := d.Store.Secret(ctx, rentals.SecretName(a.Name))
	if errors.Is(err, store.ErrNotFound) {
		return errors.New("its key is not there: add the account again with its key")
	}
	if err != nil {
		return err
	}
	a.key = string(key)
	a.cloud, err = d.Dial(a.Kind, Dial{URL: a.URL, Key: a.key})
	return err
}

// find gives an account; nil: there is none.
func (d *Service) find(name string) *account {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, a := range d.accounts {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Accounts returns all accounts, by name.
func (d *Service) Accounts() []rentals.Account {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all := make([]rentals.Account, len(d.accounts))
	for i, a := range d.accounts {
		all[i] = a.Account
	}
	return all
}

// Account returns the account with a name.
func (d *Service) Account(name string) (rentals.Account, bool) {
	a := d.find(name)
	if a == nil {
		return rentals.Account{}, false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return a.Account, true
}

// Cloud returns the client with which the company of an account is asked.
func (d *Service) Cloud(name string) (Cloud, error) {
	a := d.find(name)
	if a == nil {
		return nil, noAccount(name)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a.cloud == nil {
		return nil, wire.Refuse(wire.CodeUnavailable, "the key of the account "+name+" cannot be used", "add the account again with its key")
	}
	return a.cloud, nil
}

// Instances returns the instances of an account in the last complete view, by id, and the time of that view; nil: there was none. known is
// true if the view is up to date. Nobody may change the instances.
func (d *Service) Instances(name string) (all []*Seen, at *time.Time, known bool) {
	a := d.find(name)
	if a == nil {
		return nil, nil, false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	return a.seen, a.at, d.known(a)
}

// known is true if the view of an account is of now. The caller holds the lock.
func (d *Service) known(a *account) bool {
	if a.at == nil {
		return false
	}
	age := d.Now().Sub(*a.at)
	return age <= knownFor && age >= -knownFor // a clock that was set back by more says nothing
}
