package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/httpserver/post"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	mostAccounts = 50
	leastLimit   = 0.01 // dollars; 0 allows nothing
	longestKey   = 4096
	longestSSH   = 64
	longestTry   = time.Minute // of a new key
)

func bad(why, next string) error { return wire.Refuse(wire.CodeBadRequest, why, next) }

func noAccount(name string) error {
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no provider account %.80q", name), "muster provider ls shows them")
}

// check refuses an account that could not work, and completes it.
func check(q *providers.Request) error {
	q.Key = strings.TrimSpace(q.Key)
	q.Name = cmp.Or(q.Name, q.Kind)
	switch {
	case !slices.Contains(cloud.Kinds(), q.Kind):
		return bad(fmt.Sprintf("%.40q is no kind of provider", q.Kind), "the kinds are "+strings.Join(cloud.Kinds(), ", "))
	case wire.CheckName(q.Name) != nil || q.Name == "plan": // a path of the API is called so
		return wire.Refuse(wire.CodeBadName, "this is not an account's name",
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, a letter or digit at both ends, and is not plan")
	case q.Tenant != "" && wire.CheckTenant(q.Tenant) != nil:
		return wire.CheckTenant(q.Tenant)
	case q.Key == "" || len(q.Key) > longestKey || strings.ContainsFunc(q.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return bad("this is no API key", "put the key alone into a file: --key-file FILE")
	case len(q.SSHKey) > longestSSH || q.SSHKey != wire.Plain(q.SSHKey, longestSSH):
		return bad("this is no name of an ssh key", "name a key that the company has")
	}
	if q.URL == "" {
		return nil
	}
	_, err := post.CheckURL(q.URL, "say where the company's API is, --url https://HOST, or leave it out", true)
	return err
}

// Add stores an account whose key the company takes. If the account exists, it replaces the key. The URL makes the gateway call an address:
// the caller must be allowed to say that.
func (d *Service) Add(ctx context.Context, q providers.Request, by store.Actor) (providers.Account, error) {
	if err := check(&q); err != nil {
		return providers.Account{}, err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	before := d.find(q.Name)
	if err := d.fits(before, &q); err != nil {
		return providers.Account{}, err
	}
	if before != nil {
		q.URL = before.URL
	}
	c, err := d.Dial(q.Kind, Dial{URL: q.URL, Key: q.Key})
	if err != nil {
		return providers.Account{}, bad("the account cannot be used: "+plain(err, q.Key), "check the key and the URL")
	}
	all, err := d.try(ctx, c, q.Key)
	if err != nil {
		return providers.Account{}, err
	}
	if before != nil {
		return d.replaceKey(ctx, before, &q, c, all, by)
	}
	q.Tenant = cmp.Or(q.Tenant, store.DefaultTenant)
	return d.add(ctx, &q, c, by)
}

// fits refuses a request that does not go with the accounts that are there. The caller holds changing.
func (d *Service) fits(before *account, q *providers.Request) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, a := range d.accounts {
		if a != before && a.Kind == q.Kind && a.key == q.Key {
			return wire.Refuse(wire.CodeAlreadyThere, "the account "+a.Name+" has this key already", "each machine would count twice")
		}
	}
	switch {
	case before == nil && len(d.accounts) >= mostAccounts:
		return bad(fmt.Sprintf("there are %d accounts already", mostAccounts), "remove one: muster provider remove NAME")
	case before != nil && (before.Kind != q.Kind || q.Tenant != "" && before.Tenant != q.Tenant || q.URL != "" && q.URL != before.URL):
		return wire.Refuse(wire.CodeAlreadyThere, "there is an account "+q.Name+", and it is another one", "choose a name: --name NAME")
	}
	return nil
}

// try reads all instances with a new key.
func (d *Service) try(ctx context.Context, c Cloud, key string) ([]rentals.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, longestTry)
	defer cancel()
	all, err := read(ctx, c)
	var said *cloud.Error
	switch {
	case err == nil:
		return all, nil
	case errors.As(err, &said) && said.Kind == cloud.KeyRefused:
		return nil, bad("the company does not take this key: "+plain(err, key), "make a key there that may see instances; nothing was stored")
	}
	return nil, wire.Refuse(wire.CodeUnavailable, "the company does not show the instances of this account: "+plain(err, key),
		"nothing was stored; try again, and check --url")
}

// plain is an error of a company without the key.
func plain(err error, key string) string {
	return wire.Plain(strings.ReplaceAll(err.Error(), key, "***"), longestText)
}

func (d *Service) add(ctx context.Context, q *providers.Request, c Cloud, by store.Actor) (providers.Account, error) {
	a := newAccount(rentals.Account{Name: q.Name, Kind: q.Kind, Tenant: q.Tenant, URL: q.URL, SSHKey: q.SSHKey, CreatedBy: by.Name,
		CreatedAt: d.Now().UTC()})
	a.key, a.cloud = q.Key, c
	if err := d.Records.AddAccount(ctx, a.Account, d.event("provider.added", a, by, nil)); err != nil {
		return providers.Account{}, err
	}
	if err := d.Store.SetSecret(ctx, rentals.SecretName(a.Name), []byte(q.Key)); err != nil {
		return providers.Account{}, errors.Join(err, d.Records.RemoveAccount(context.WithoutCancel(ctx), a.Name))
	}
	d.swap(func(all []*account) []*account { return append(all, a) })
	return d.show(a), nil
}

// replaceKey gives an account another key. It must see the same machines: else all of them would look gone.
func (d *Service) replaceKey(
	ctx context.Context, a *account, q *providers.Request, c Cloud, all []rentals.Instance, by store.Actor,
) (providers.Account, error) {
	known, _, _ := d.Instances(a.Name)
	isSeen := func(s *Seen) bool {
		return slices.ContainsFunc(all, func(i rentals.Instance) bool { return i.ID == s.ID })
	}
	if len(known) > 0 && !slices.ContainsFunc(known, isSeen) {
		return providers.Account{}, bad(fmt.Sprintf("this key sees none of the %d instances of the account %s", len(known), a.Name),
			"it is another account's key: add it under another name, --name NAME")
	}
	if err := d.Store.SetSecret(ctx, rentals.SecretName(a.Name), []byte(q.Key),
		d.event("provider.added", a, by, map[string]string{"key": "replaced"})); err != nil {
		return providers.Account{}, err
	}
	d.mu.Lock()
	a.key, a.cloud = q.Key, c
	d.mu.Unlock()
	a.nudge()
	p := d.show(a)
	p.KeyReplaced = true
	return p, nil
}

// Remove forgets an account and its key. Its machines go on.
func (d *Service) Remove(ctx context.Context, name string, by store.Actor) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	a := d.find(name)
	if a == nil {
		return noAccount(name)
	}
	err := d.Records.RemoveAccount(ctx, name, d.event("provider.removed", a, by, nil))
	switch {
	case errors.Is(err, store.ErrConflict):
		return d.inUse(ctx, name)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	d.dropped(a)
	return nil
}

// dropped ends the polling of an account that is not on record any more. The caller holds changing.
func (d *Service) dropped(a *account) {
	d.swap(func(all []*account) []*account {
		return slices.DeleteFunc(all, func(b *account) bool { return a == b })
	})
	if a.stop != nil {
		a.stop()
		<-a.done
	}
}

// inUse refuses to forget an account, and says what is in the way.
func (d *Service) inUse(ctx context.Context, name string) error {
	ctx = store.Fresh(ctx)
	leases, err := d.Records.Leases(ctx, rentals.LeaseQuery{Account: name})
	if err != nil {
		return err
	}
	kept, err := d.Records.Kept(ctx, name)
	if err != nil {
		return err
	}
	if len(leases) > 0 || len(kept) == 0 {
		return wire.Refuse(wire.CodeIllegalMove, "machines of the account "+name+" are rented, or under a lease that has not ended",
			"give them back first: muster lease ls --provider "+name+"; if its key is dead: muster provider remove "+name+" --forget-machines")
	}
	return wire.Refuse(wire.CodeIllegalMove, fmt.Sprintf("muster has rented %d machines of the account %s that the company still has, "+
		"running or stopped, and charges: %s", len(kept), name, strings.Join(kept[:min(len(kept), 5)], ", ")),
		"destroy each first: muster provider destroy "+name+"/"+kept[0]+"; once two lists leave it out, the account can go")
}

// swap changes the accounts. The caller holds changing.
func (d *Service) swap(change func([]*account) []*account) {
	d.mu.Lock()
	d.accounts = change(slices.Clone(d.accounts))
	sortAccounts(d.accounts)
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
	d.Changed()
}

// SetLimit says what the machines of an account may cost an hour.
func (d *Service) SetLimit(ctx context.Context, name string, q providers.SpendingLimit, by store.Actor) error {
	a := d.find(name)
	if a == nil {
		return noAccount(name)
	}
	limit, shown, err := Limit(q)
	if err != nil {
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	e := d.event("spending.limited", a, by, map[string]string{"limit": shown})
	if err := d.Records.SetLimit(ctx, name, limit, d.Now(), by.Name, e); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.Limit = limit
	return nil
}

// Limit reads a limit into millionths, and says it in words; nil: there is no limit.
func Limit(q providers.SpendingLimit) (perHour *int64, shown string, err error) {
	if q.PerHour == nil {
		return nil, "none", nil
	}
	if most := *q.PerHour; !(most == 0 || most >= leastLimit && most <= mostMoney.Dollars()) {
		return nil, "", bad("this is no limit", "write dollars an hour, 0, or from 0.01 to 1000000, or none")
	}
	limit := int64(math.Round(*q.PerHour * float64(cloud.Dollar)))
	return &limit, fmt.Sprintf("%g an hour", *q.PerHour), nil
}

// List returns the accounts of a tenant, by name; "": all.
func (d *Service) List(tenant string) []providers.Account {
	d.mu.RLock()
	accounts := d.accounts
	d.mu.RUnlock()
	all := []providers.Account{}
	for _, a := range accounts {
		if tenant == "" || a.Tenant == tenant {
			all = append(all, d.show(a))
		}
	}
	return all
}

// Show returns one account.
func (d *Service) Show(name, tenant string) (providers.Account, error) {
	a := d.find(name)
	if a == nil || tenant != "" && a.Tenant != tenant {
		return providers.Account{}, noAccount(name)
	}
	return d.show(a), nil
}

// show is an account as the API shows it, without what it costs.
func (d *Service) show(a *account) providers.Account {
	d.mu.RLock()
	defer d.mu.RUnlock()
	p := providers.Account{Name: a.Name, Kind: a.Kind, Tenant: a.Tenant, URL: a.URL, CreatedAt: a.CreatedAt, CreatedBy: a.CreatedBy,
		SyncedAt: a.SyncedAt, FailedAt: a.FailedAt, Error: a.Error, Known: d.known(a)}
	if a.cloud == nil {
		p.Error = "its key cannot be used: add the account again with its key"
	}
	if a.Limit != nil {
		limit := cloud.Money(*a.Limit).Dollars()
		p.Limit = &limit
	}
	if a.at != nil {
		p.Instances = new(len(a.seen))
	}
	return p
}

func (d *Service) event(kind string, a *account, by store.Actor, detail map[string]string) store.Event {
	e := store.Event{At: d.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Tenant: a.Tenant, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"provider": a.Name, "kind": a.Kind}}
	for key, value := range detail {
		e.Detail[key] = value
	}
	return e
}
