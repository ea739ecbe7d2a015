// Package alerts keeps the records of alerts: what was told to whom, what is silenced, and who receives alerts.
//
// The addresses of receivers are secrets, so they are sealed by the store, among its other secrets. The conditions of every write stand in
// its SQL.
package alerts

import (
	"context"
	"slices"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/sqlite"
)

// Alert is one cause for one subject, from when it fired.
type Alert struct {
	ID         string     `sql:"id"`
	Cause      string     `sql:"cause"`
	Subject    string     `sql:"subject"`
	NodeID     string     `sql:"node_id"` // "": it is about no single node
	NodeName   string     `sql:"node_name"`
	Tenant     string     `sql:"tenant"` // "": it is about the whole fleet
	Severity   string     `sql:"severity"`
	Text       string     `sql:"text"`
	Since      time.Time  `sql:"since"` // when the cause began
	FiredAt    time.Time  `sql:"fired_at"`
	ResolvedAt *time.Time `sql:"resolved_at"` // nil: it is open
	Members    []string   `sql:"members"`     // ids of nodes, where it is about many
}

// Delivery is what a receiver has been told of an alert.
type Delivery struct {
	Alert    string     `sql:"alert"`    // id
	Receiver string     `sql:"receiver"` // name
	Want     string     `sql:"want"`     // what it is to be told
	Told     string     `sql:"told"`     // what it was told; "": nothing
	Since    time.Time  `sql:"since"`
	Tries    int        `sql:"tries"`
	NextAt   time.Time  `sql:"next_at"`
	ToldAt   *time.Time `sql:"told_at"`
	Error    string     `sql:"error"`
	GaveUp   bool       `sql:"gave_up"`
}

// Contact is how the last tries to reach a receiver went.
type Contact struct {
	Receiver string     `sql:"name"`
	SentAt   *time.Time `sql:"sent_at"`
	FailedAt *time.Time `sql:"failed_at"`
	Error    string     `sql:"error"`
}

// Records is the database, for alerts.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

var (
	alerts     = engine.NewTable[Alert]("alerts", "", "")
	deliveries = engine.NewTable[Delivery]("alert_deliveries", "", "")
	contacts   = engine.NewTable[Contact]("alert_receivers", "", "")
	silences   = engine.NewTable[Silence]("alert_silences", "", "")
)

// Alerts returns the open alerts, and the newest of those that are resolved: at most resolved of them.
func (r Records) Alerts(ctx context.Context, resolved int) ([]Alert, error) {
	return alerts.All(ctx, r.db, "WHERE resolved_at IS NULL OR id IN "+
		"(SELECT id FROM alerts WHERE resolved_at IS NOT NULL ORDER BY resolved_at DESC LIMIT ?) ORDER BY fired_at, id", int64(resolved))
}

// Deliveries returns all deliveries on record.
func (r Records) Deliveries(ctx context.Context) ([]Delivery, error) {
	return deliveries.All(ctx, r.db, "ORDER BY alert")
}

// Contacts returns how the last tries to reach the receivers went.
func (r Records) Contacts(ctx context.Context) ([]Contact, error) { return contacts.All(ctx, r.db, "") }

// Change is what one write stores.
type Change struct {
	Alerts     []Alert
	Deliveries []Delivery
	Contacts   []Contact
}

// Write stores alerts, deliveries and contacts, and replaces their earlier rows. An alert that was resolved stays resolved.
func (r Records) Write(ctx context.Context, c Change, events ...store.Event) error {
	return r.db.Change(ctx, c.statements(), events...)
}

func (c *Change) statements() []engine.Statement {
	var all []engine.Statement
	for _, a := range c.Alerts {
		all = append(all, alerts.Insert(a, `ON CONFLICT(id) DO UPDATE SET node_name = excluded.node_name, severity = excluded.severity,
			text = excluded.text, members = excluded.members, resolved_at = coalesce(alerts.resolved_at, excluded.resolved_at)`))
	}
	for _, d := range c.Deliveries {
		all = append(all, deliveries.Put(d))
	}
	for _, k := range c.Contacts {
		all = append(all, contacts.Put(k))
	}
	return all
}

// Replace stores alerts and deliveries in the place of all earlier ones. It leaves out deliveries to receivers that do not exist.
func (r Records) Replace(ctx context.Context, c Change) error {
	receivers, err := r.Receivers(ctx)
	if err != nil {
		return err
	}
	c.Deliveries = slices.DeleteFunc(slices.Clone(c.Deliveries), func(d Delivery) bool { return !slices.Contains(receivers, d.Receiver) })
	all := []engine.Statement{engine.Do("DELETE FROM alerts"), engine.Do("DELETE FROM alert_deliveries")}
	return r.db.Change(ctx, append(all, c.statements()...))
}

// Told reads what a gateway had told, from the file with its database. It returns nil if the gateway did not go on from the backup that was
// made at backupAt.
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

// SecretName returns the name of the sealed secret in which a receiver is kept.
func SecretName(receiver string) string { return secretPrefix + receiver }

// Receivers returns the names of all receivers.
func (r Records) Receivers(ctx context.Context) ([]string, error) {
	return r.db.Secrets(ctx, secretPrefix)
}

// DropReceiver deletes a receiver, and what is kept of it. ErrNotFound if there is none.
func (r Records) DropReceiver(ctx context.Context, name string, events ...store.Event) error {
	return engine.NotFound(r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM secrets WHERE name = ?)", SecretName(name)),
		engine.Do("DELETE FROM secrets WHERE name = ?", SecretName(name)),
		engine.Do("DELETE FROM alert_receivers WHERE name = ?", name),
		engine.Do("DELETE FROM alert_deliveries WHERE receiver = ?", name),
	}, events...))
}
