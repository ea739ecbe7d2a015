// Package alerts keeps the records of alerts: what was told to whom, what is silenced, and who receives alerts.
//
// The addresses of receivers are secrets, so they are sealed by the store, among its other secrets. The conditions of every write stand in
// its SQL.
package alerts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/sqlite"
)

// Alert is one cause for one subject, from when it fired.
type Alert struct {
	ID         string
	Cause      string
	Subject    string
	NodeID     string // "": it is about no single node
	NodeName   string
	Tenant     string // "": it is about the whole fleet
	Severity   string
	Text       string
	Since      time.Time // when the cause began
	FiredAt    time.Time
	ResolvedAt *time.Time // nil: it is open
	Members    []string   // ids of nodes, where it is about many
}

// Delivery is how far a receiver has been told of an alert.
type Delivery struct {
	Alert    string // id
	Receiver string // name
	Want     string // what it is to be told
	Told     string // what it was told; "": nothing
	Since    time.Time
	Tries    int
	NextAt   time.Time
	ToldAt   *time.Time
	Error    string
	GaveUp   bool
}

// Contact is how the last tries to reach a receiver went.
type Contact struct {
	Receiver string
	SentAt   *time.Time
	FailedAt *time.Time
	Error    string
}

// Records is the database, for alerts.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

const alertColumns = "id, cause, subject, node_id, node_name, tenant, severity, text, since, fired_at, resolved_at, members"

func readAlert(r *engine.Row) Alert {
	a := Alert{ID: r.Text(), Cause: r.Text(), Subject: r.Text(), NodeID: r.Text(), NodeName: r.Text(), Tenant: r.Text(), Severity: r.Text(),
		Text: r.Text(), Since: r.Time(), FiredAt: r.Time(), ResolvedAt: r.Maybe()}
	r.Document(&a.Members)
	return a
}

// Alerts are those that are open, and of those that are resolved the newest, so many at most.
func (r Records) Alerts(ctx context.Context, resolved int) ([]Alert, error) {
	return engine.All(ctx, r.db, readAlert, engine.Do("SELECT "+alertColumns+" FROM alerts WHERE resolved_at IS NULL OR id IN "+
		"(SELECT id FROM alerts WHERE resolved_at IS NOT NULL ORDER BY resolved_at DESC LIMIT ?) ORDER BY fired_at, id", int64(resolved)))
}

// Deliveries are all that are on record.
func (r Records) Deliveries(ctx context.Context) ([]Delivery, error) {
	const all = "SELECT alert, receiver, want, told, since, tries, next_at, told_at, error, gave_up FROM alert_deliveries ORDER BY alert"
	return engine.All(ctx, r.db, func(r *engine.Row) Delivery {
		d := Delivery{Alert: r.Text(), Receiver: r.Text(), Want: r.Text(), Told: r.Text(), Since: r.Time(), Tries: int(r.Number()),
			NextAt: r.Time(), ToldAt: r.Maybe()}
		d.Error = r.Text()
		d.GaveUp = r.Flag()
		return d
	}, engine.Do(all))
}

// Contacts are how the last tries to reach the receivers went.
func (r Records) Contacts(ctx context.Context) ([]Contact, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) Contact {
		return Contact{Receiver: r.Text(), SentAt: r.Maybe(), FailedAt: r.Maybe(), Error: r.Text()}
	}, engine.Do("SELECT name, sent_at, failed_at, error FROM alert_receivers"))
}

// Change is what one write stores.
type Change struct {
	Alerts     []Alert
	Deliveries []Delivery
	Contacts   []Contact
}

// Write stores alerts, deliveries and contacts in the place of what there was of them. An alert that was resolved stays so.
func (r Records) Write(ctx context.Context, c Change, events ...store.Event) error {
	return r.db.Change(ctx, c.statements(), events...)
}

func (c *Change) statements() []engine.Statement {
	var all []engine.Statement
	for i := range c.Alerts {
		all = append(all, putAlert(&c.Alerts[i]))
	}
	for i := range c.Deliveries {
		d := &c.Deliveries[i]
		all = append(all, engine.Do(`INSERT INTO alert_deliveries(alert, receiver, want, told, since, tries, next_at, told_at, error, gave_up)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET want = excluded.want, told = excluded.told,
			since = excluded.since, tries = excluded.tries, next_at = excluded.next_at, told_at = excluded.told_at,
			error = excluded.error, gave_up = excluded.gave_up`,
			d.Alert, d.Receiver, d.Want, d.Told, engine.Millis(d.Since), int64(d.Tries), engine.Millis(d.NextAt),
			engine.MaybeMillis(d.ToldAt), d.Error, engine.Flag(d.GaveUp)))
	}
	for _, k := range c.Contacts {
		all = append(all, engine.Do(`INSERT INTO alert_receivers(name, sent_at, failed_at, error) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET sent_at = excluded.sent_at, failed_at = excluded.failed_at, error = excluded.error`,
			k.Receiver, engine.MaybeMillis(k.SentAt), engine.MaybeMillis(k.FailedAt), k.Error))
	}
	return all
}

// Replace stores alerts and deliveries in the place of all that there were. Those to receivers that there are not are left out.
func (r Records) Replace(ctx context.Context, c Change) error {
	receivers, err := r.Receivers(ctx)
	if err != nil {
		return err
	}
	c.Deliveries = slices.DeleteFunc(slices.Clone(c.Deliveries), func(d Delivery) bool { return !slices.Contains(receivers, d.Receiver) })
	all := []engine.Statement{engine.Do("DELETE FROM alerts"), engine.Do("DELETE FROM alert_deliveries")}
	return r.db.Change(ctx, append(all, c.statements()...))
}

// Told reads what the gateway whose database is in a file had told. nil: it did not go on from the backup that was made at this time.
func Told(ctx context.Context, file string, backupAt time.Time) (*Change, error) {
	db, err := sqlite.OpenToRead(file)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	const meta = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?"
	knows, err := engine.All(ctx, db, (*engine.Row).Time, engine.Do(meta, store.MetaBackupAt))
	if err != nil || len(knows) == 0 || knows[0].Before(backupAt) {
		return nil, err
	}
	r := New(store.Records{Engine: db})
	c := &Change{}
	if c.Alerts, err = r.Alerts(ctx, mostCarried); err == nil {
		c.Deliveries, err = r.Deliveries(ctx)
	}
	return c, err
}

// mostCarried bounds the resolved alerts that Told reads. The gateway keeps no more.
const mostCarried = 1000

func putAlert(a *Alert) engine.Statement {
	if a.Members == nil {
		a.Members = []string{}
	}
	return engine.Do("INSERT INTO alerts("+alertColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET "+
		`node_name = excluded.node_name, severity = excluded.severity, text = excluded.text, members = excluded.members,
		resolved_at = coalesce(alerts.resolved_at, excluded.resolved_at)`,
		a.ID, a.Cause, a.Subject, a.NodeID, a.NodeName, a.Tenant, a.Severity, a.Text, engine.Millis(a.Since), engine.Millis(a.FiredAt),
		engine.MaybeMillis(a.ResolvedAt), engine.JSON(a.Members))
}

// Prune deletes alerts that were resolved before a time, all but the newest of the resolved ones, and deliveries whose alert is gone.
func (r Records) Prune(ctx context.Context, before time.Time, most int) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do(`DELETE FROM alerts WHERE resolved_at IS NOT NULL AND (resolved_at < ? OR id NOT IN
			(SELECT id FROM alerts WHERE resolved_at IS NOT NULL ORDER BY resolved_at DESC LIMIT ?))`, engine.Millis(before), int64(most)),
		engine.Do("DELETE FROM alert_deliveries WHERE alert NOT IN (SELECT id FROM alerts)"),
		engine.Do("DELETE FROM alert_silences WHERE ends_at < ?", engine.Millis(before)),
	})
}

// secretPrefix begins the names of the sealed secrets that receivers are.
const secretPrefix = "alert-receiver/"

// SecretName is the name of the sealed secret in which a receiver is kept.
func SecretName(receiver string) string { return secretPrefix + receiver }

// Receivers are the names of all receivers.
func (r Records) Receivers(ctx context.Context) ([]string, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) string { return strings.TrimPrefix(r.Text(), secretPrefix) },
		engine.Do("SELECT name FROM secrets WHERE substr(name, 1, length(?)) = ? ORDER BY name", secretPrefix, secretPrefix))
}

// DropReceiver deletes a receiver, and what is kept of it. ErrNotFound if there is none.
func (r Records) DropReceiver(ctx context.Context, name string, events ...store.Event) error {
	return notFound(r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM secrets WHERE name = ?)", SecretName(name)),
		engine.Do("DELETE FROM secrets WHERE name = ?", SecretName(name)),
		engine.Do("DELETE FROM alert_receivers WHERE name = ?", name),
		engine.Do("DELETE FROM alert_deliveries WHERE receiver = ?", name),
	}, events...))
}

// notFound is what a guard's ErrConflict means here.
func notFound(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return store.ErrNotFound
	}
	return err
}
