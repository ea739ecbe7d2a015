// Package rqlite is the engine for several gateways: a cluster of rqlite (SQLite behind Raft), spoken to over HTTP. It knows no table but
// its own two.
//
// One gateway at a time writes. Each of its batches begins with a row of the lease's fence and the batch's own number. A trigger refuses
// the row if another gateway holds the lease by now. So a batch whose answer was lost can be sent again, too: either it was not done, or
// its row is there already. A copy of a batch that arrives late, when its row is gone, has a number below those that are still in use. If a
// copy may be on its way of a batch whose conditions did not hold, its number is barred.
package rqlite

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/store/engine"
)

const (
	// connectTime is for one connection, and answerTime for one answer. A leader is away for 1 to 4 s while another one is elected.
	connectTime = 2 * time.Second
	answerTime  = 10 * time.Second
	// retryPause is between two tries of a request that no node has answered.
	retryPause = 200 * time.Millisecond
	// readTime is how long a query is tried.
	readTime = 15 * time.Second
)

// Options say where the cluster is and how it is spoken to.
type Options struct {
	Endpoints []string    // HOST:PORT of its nodes
	TLS       *tls.Config // nil: plain HTTP, which Open refuses but to loopback
	User      string      // empty: the cluster asks for nobody
	Password  string
	Now       func() time.Time  // nil: time.Now; this machine's wall clock
	Transport http.RoundTripper // nil: the network; for tests
}

// DB is a cluster. Its methods may be called from any number of goroutines.
type DB struct {
	o       Options
	http    *http.Client
	base    []string // URLs of the nodes
	next    atomic.Int64
	fence   atomic.Int64            // of the lease that this process holds; 0: it holds none
	beat    atomic.Int64            // one that the lease has had since
	until   atomic.Pointer[instant] // when it ends, unless it is renewed; nil: it was never held
	outages engine.Outages

	failures atomic.Int64 // requests that no node has answered
	current  atomic.Int64 // of these, those after which the leader has applied all

	mu     sync.Mutex     // guards what is below
	number int64          // of the last batch
	flying map[int64]bool // numbers of the batches whose outcome is not known yet

	reads  queue
	writes queue

	open  context.Context // ends when the database is closed
	close context.CancelFunc
	calls sync.WaitGroup // requests of the queues that are on their way
}

// Open makes the tables of this package, if they are not there. It needs a leader for that. Nothing else is read or written: the holder of
// the lease changes the schema, see Migrate.
func Open(ctx context.Context, o Options) (*DB, error) {
	if len(o.Endpoints) == 0 {
		return nil, errors.New("no node of rqlite is named")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	db := &DB{o: o, flying: map[int64]bool{}}
	db.reads = queue{most: mostReading, send: db.readGroup}
	db.writes = queue{most: mostWriting, send: db.writeGroup}
	db.open, db.close = context.WithCancel(context.Background())
	db.outages.Now = o.Now
	scheme := "https"
	if o.TLS == nil {
		scheme = "http"
	}
	for _, endpoint := range o.Endpoints {
		host, _, err := net.SplitHostPort(endpoint)
		if err != nil {
			return nil, fmt.Errorf("the node %q of rqlite: write HOST:PORT", endpoint)
		}
		if o.TLS == nil && !Loopback(host) {
			return nil, fmt.Errorf("the node %s of rqlite is not on this machine: it needs TLS (--store-ca)", endpoint)
		}
		db.base = append(db.base, (&url.URL{Scheme: scheme, Host: endpoint}).String())
	}
	db.http = newClient(o)
	for _, table := range ownTables() {
		if _, err := db.change(ctx, engine.Do(table), readTime); err != nil {
			return nil, fmt.Errorf("open rqlite at %s: %w", strings.Join(o.Endpoints, ", "), errors.Join(err, db.Close()))
		}
	}
	return db, nil
}

// Loopback reports whether a host is this machine, so that nobody else hears what goes to it.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ownTables are those that no migration makes, because they must be there before anybody may migrate.
func ownTables() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS lease (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), holder TEXT NOT NULL, token TEXT NOT NULL,
			next TEXT NOT NULL, fence INTEGER NOT NULL, beat INTEGER NOT NULL, url TEXT NOT NULL, wall_ms INTEGER NOT NULL,
			schema INTEGER NOT NULL, settled INTEGER NOT NULL) STRICT`,
		`CREATE TABLE IF NOT EXISTS batches (fence INTEGER NOT NULL, number INTEGER NOT NULL, barred INTEGER NOT NULL DEFAULT 0,
			PRIMARY KEY (fence, number)) STRICT, WITHOUT ROWID`,
		`CREATE TRIGGER IF NOT EXISTS batches_fenced BEFORE INSERT ON batches WHEN NEW.fence IS NOT (SELECT fence FROM lease)
			BEGIN SELECT RAISE(ABORT, '` + fencedText + `'); END`,
		`CREATE TRIGGER IF NOT EXISTS batches_settled BEFORE INSERT ON batches
			WHEN NEW.fence IS (SELECT fence FROM lease) AND NEW.number < (SELECT settled FROM lease)
			BEGIN SELECT RAISE(ABORT, '` + settledText + `'); END`,
	}
}

// Close finishes requests that were sent. Calls that wait for an answer of another node, and all later calls, get engine.ErrClosed.
func (db *DB) Close() error {
	db.mu.Lock()
	db.close()
	db.mu.Unlock()
	db.calls.Wait()
	db.http.CloseIdleConnections()
	return nil
}

func (db *DB) closed() bool { return db.open.Err() != nil }

// Outages sets the function that is told about outages, see engine.Outages.
func (db *DB) Outages(tell func(error)) { db.outages.Tell(tell) }
