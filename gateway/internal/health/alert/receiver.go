package alert

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/httpserver/post"
	"muster/gateway/internal/label"
	"muster/store"
	records "muster/store/alerts"
)

// Kinds of receivers.
const (
	KindWebhook      = "webhook"
	KindSlack        = "slack"
	KindNtfy         = "ntfy"
	KindAlertmanager = "alertmanager"
)

// Kinds returns all kinds of receivers.
func Kinds() []string { return []string{KindWebhook, KindSlack, KindNtfy, KindAlertmanager} }

const (
	mostReceivers = 20
	longestToken  = 4096
	secretPrefix  = "whs_" // of what signs requests to a webhook
)

// sealed is a receiver as it is kept.
type sealed struct {
	api.AlertReceiverRequest
	Name      string
	Secret    string // that signs; "": nothing is signed
	CreatedAt time.Time
	CreatedBy string
}

// receiver is one that is in use.
type receiver struct {
	sealed
	terms   []label.Term
	contact records.Contact
	dirty   bool      // the record does not say what contact says
	busy    bool      // it is being told something
	fails   int       // in a row, of the receiver as a whole
	until   time.Time // it is left alone
}

func (d *Service) readReceivers(ctx context.Context) error {
	names, err := d.records.Receivers(ctx)
	if err != nil {
		return err
	}
	contacts, err := d.records.Contacts(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		value, err := d.Store.Secret(ctx, records.SecretName(name))
		if err != nil {
			return err
		}
		r := &receiver{contact: records.Contact{Receiver: name}}
		if err := json.Unmarshal(value, &r.sealed); err != nil {
			return fmt.Errorf("the receiver of alerts %s cannot be read: %w", name, err)
		}
		if r.terms, err = label.ParseSelector(r.Selector); err != nil {
			return err
		}
		for _, k := range contacts {
			if k.Receiver == name {
				r.contact = k
			}
		}
		d.receivers[name] = r
	}
	return nil
}

// SetReceiver stores a receiver; with Replace, it replaces the previous one of that name. For a new webhook, the result has the secret that
// signs what the webhook gets.
func (d *Service) SetReceiver(ctx context.Context, name string, q api.AlertReceiverRequest, by store.Actor) (api.AlertReceiver, error) {
	d.writing.Lock() // of two at once the second one finds the first
	defer d.writing.Unlock()
	r, isNew, err := d.newReceiver(name, q, by)
	if err != nil {
		return api.AlertReceiver{}, err
	}
	value, err := json.Marshal(r.sealed)
	if err != nil {
		return api.AlertReceiver{}, err
	}
	e := d.event("alert.receiver_set", by, map[string]string{"receiver": name, "kind": r.Kind, "host": r.host()})
	if err := d.Store.SetSecret(ctx, records.SecretName(name), value, e); err != nil {
		return api.AlertReceiver{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.receivers[name] = r
	shown := d.view(r)
	if isNew {
		shown.Secret = r.Secret
	}
	return shown, nil
}

// newReceiver is the receiver that an operator asks for, with what is kept of one before. isNew is true if its secret is a new one.
func (d *Service) newReceiver(name string, q api.AlertReceiverRequest, by store.Actor) (r *receiver, isNew bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.receivers[name]
	switch {
	case before != nil && !q.Replace:
		return nil, false, wire.Refuse(wire.CodeNameInUse, fmt.Sprintf("there is a receiver %s already", name),
			"choose another name, or change it: muster alert receiver add "+name+" --replace, with all that it is to get")
	case before == nil && len(d.receivers) >= mostReceivers:
		return nil, false, refuse(fmt.Sprintf("there are %d receivers already", mostReceivers), "remove one: muster alert receiver rm NAME")
	}
	q.Replace = false
	r = &receiver{contact: records.Contact{Receiver: name},
		sealed: sealed{AlertReceiverRequest: q, Name: name, CreatedAt: d.Now().UTC(), CreatedBy: by.Name}}
	if before != nil && before.Kind == q.Kind {
		r.contact = before.contact // what it is told just now changes this
		r.keep(&before.sealed)
	}
	for _, cause := range q.Causes {
		err = cmp.Or(err, d.CheckCause(cause))
	}
	if err != nil {
		return nil, false, err
	}
	if r.terms, err = r.check(); err != nil {
		return nil, false, err
	}
	if r.Kind == KindWebhook && r.Secret == "" {
		isNew = true
		r.Secret = newSecret()
	}
	return r, isNew, nil
}

// keep takes over what the operator did not say again.
func (s *sealed) keep(before *sealed) {
	if s.URL == "" && s.Token == "" { // to another address no token goes by itself
		s.URL = before.URL
		s.Token = before.Token
	}
	s.Secret = before.Secret
	s.CreatedAt = before.CreatedAt
	s.CreatedBy = before.CreatedBy
}

func newSecret() string {
	var random [32]byte
	rand.Read(random[:])
	return secretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
}

func refuse(why, next string) error { return wire.Refuse(wire.CodeBadRequest, why, next) }

// check refuses a receiver that could not work.
func (s *sealed) check() ([]label.Term, error) {
	switch {
	case wire.CheckName(s.Name) != nil:
		return nil, wire.Refuse(wire.CodeBadName, "this is not a receiver's name", // it may be the URL
			"a name has 1 to 63 letters, digits, dots, dashes or underscores, and a letter or digit at both ends")
	case !slices.Contains(Kinds(), s.Kind):
		return nil, refuse(fmt.Sprintf("%.40q is no kind of receiver", s.Kind), "one of "+strings.Join(Kinds(), ", "))
	case s.Tenant != "" && wire.CheckTenant(s.Tenant) != nil:
		return nil, wire.CheckTenant(s.Tenant)
	case s.Severity != "" && !slices.Contains(api.Severities(), s.Severity):
		return nil, refuse(fmt.Sprintf("%.40q is no severity", s.Severity), "one of "+strings.Join(api.Severities(), ", "))
	case s.Priority < 0 || s.Priority > 5 || s.Priority != 0 && s.Kind != KindNtfy:
		return nil, refuse("this is no priority", "a receiver of the kind ntfy may have one from 1 to 5")
	case len(s.Token) > longestToken || strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, refuse("this is no token", "a token is one word")
	}
	if err := s.checkURL(); err != nil {
		return nil, err
	}
	return label.ParseSelector(s.Selector)
}

// CheckCause refuses a name that is not a cause of alerts. An empty name means any cause.
func (d *Service) CheckCause(name string) error {
	if name == "" || d.table[name] != nil {
		return nil
	}
	if c := condition.Named(name); c != nil && c.IsFound() {
		sums := condition.NodeWarning
		if c.Severity == api.SeveritySevere {
			sums = condition.FindingSevere
		}
		return refuse(name+" is a finding, and has no alert of its own", "the cause "+sums+" tells of it")
	}
	return refuse(fmt.Sprintf("%.60q is no cause of alerts", name), "one of "+strings.Join(slices.Sorted(maps.Keys(d.table)), ", "))
}

// checkURL refuses an address to which no request could go, or over which a secret would go in plain text.
func (s *sealed) checkURL() error {
	u, err := post.CheckURL(s.URL, "give it by --file FILE or a pipe, since it is a secret; a second line may hold a token",
		s.Token != "" || s.Kind == KindSlack)
	if err == nil && s.Kind == KindNtfy && (path.Base(u.Path) == "." || path.Base(u.Path) == "/") {
		return refuse("the URL names no topic of ntfy", "write it as https://HOST/TOPIC")
	}
	return err
}

// host is all that anybody sees of the address.
func (s *sealed) host() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// DropReceiver deletes a receiver.
func (d *Service) DropReceiver(ctx context.Context, name string, by store.Actor) error {
	d.writing.Lock() // no write of this service brings back what is deleted
	defer d.writing.Unlock()
	err := d.records.DropReceiver(ctx, name, d.event("alert.receiver_removed", by, map[string]string{"receiver": name}))
	if errors.Is(err, store.ErrNotFound) {
		return noReceiver(name)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.receivers, name)
	maps.DeleteFunc(d.deliveries, func(p place, _ *delivery) bool { return p.receiver == name })
	return nil
}

func noReceiver(name string) error {
	if wire.CheckName(name) != nil { // it may be the URL
		name = "of that name"
	}
	return wire.Refuse(wire.CodeNotFound, "there is no receiver "+name, "muster alert receiver ls shows them")
}

// Receivers returns all receivers, by name.
func (d *Service) Receivers() []api.AlertReceiver {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []api.AlertReceiver{}
	for _, name := range slices.Sorted(maps.Keys(d.receivers)) {
		all = append(all, d.view(d.receivers[name]))
	}
	return all
}

// view leaves out the URL and the token, which are secrets.
func (d *Service) view(r *receiver) api.AlertReceiver {
	out := api.AlertReceiver{Name: r.Name, Kind: r.Kind, Host: r.host(), Selector: r.Selector, Tenant: r.Tenant,
		Causes: append([]string{}, r.Causes...), Severity: r.Severity, Priority: r.Priority, HasToken: r.Token != "",
		CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy, SentAt: r.contact.SentAt, FailedAt: r.contact.FailedAt, Error: r.contact.Error}
	for p, v := range d.deliveries {
		switch {
		case p.receiver != r.Name:
		case v.GaveUp:
			out.GivenUp++
		case v.Told != v.Want:
			out.Waiting++
		}
	}
	return out
}

// testCause stands in a test alert. It is no condition of the table.
const testCause = "test"

// Test sends a receiver a test alert, and waits for the answer.
func (d *Service) Test(ctx context.Context, name string, by store.Actor) (api.AlertTest, error) {
	d.mu.Lock()
	r := d.receivers[name]
	d.mu.Unlock()
	if r == nil {
		return api.AlertTest{}, noReceiver(name)
	}
	now := d.Now()
	at := now.UTC()
	id := newID("test-")
	m := message{Version: 1, Key: id + ":" + Firing, State: Firing, URL: d.page(), AlertFacts: api.AlertFacts{ID: id, Cause: testCause,
		Subject: testCause, Severity: wire.SeverityNote, Text: "This is a test of muster's alerts to the receiver " + name,
		Next: "Nothing is to be done.", Topic: "alerts", Since: at, FiredAt: at}}
	began := time.Now()
	status, err := d.post(ctx, &r.sealed, []message{m}, now)
	t := api.AlertTest{Delivered: err == nil, Status: status, TookMS: time.Since(began).Milliseconds()}
	e := d.event("alert.receiver_tested", by, map[string]string{"receiver": name, "host": r.host()})
	if failed, is := errors.AsType[*post.Error](err); is {
		t.Error = failed.Text
		t.Next = failed.Next
		e.Outcome = store.OutcomeNone
		e.Detail["error"] = failed.Text
	} else if err != nil {
		return api.AlertTest{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.note(err, now, d.Rand())
	if err == nil {
		r.until = time.Time{}
	}
	d.events = append(d.events, e)
	return t, nil
}

func (d *Service) event(kind string, by store.Actor, detail map[string]string) store.Event {
	return store.Event{At: d.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: detail}
}
