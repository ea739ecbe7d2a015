package rqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"muster/store/engine"
)

const (
	// loadTime is how long the nodes may take to have a database that is loaded, and confirmTime how long one is waited for whose answer
	// was lost.
	loadTime    = 30 * time.Minute
	confirmTime = time.Minute
	// fenceStep is how much a database that is loaded is above all fences that anybody knows of. A gateway may have seen some more.
	fenceStep = 1 << 20
)

// Engine has the methods of a database in a file that this package needs.
type Engine interface {
	engine.Querier
	Batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error)
}

// Furnish prepares a database for Load: it adds the tables of this package, and a lease for the loader, whose fence is far above the fence
// above, and above any fence of the database. It returns that fence.
func Furnish(ctx context.Context, db Engine, above int64, claim Claim) (fence int64, err error) {
	had, err := db.Query(ctx, engine.Do("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'lease'"))
	if err == nil && len(had) > 0 {
		fence, err = engine.First(ctx, db, (*engine.Row).Number, engine.Do("SELECT coalesce(max(fence), 0) FROM lease"))
	}
	if err != nil {
		return 0, err
	}
	fence = max(fence, above) + fenceStep
	all := strip()
	for _, table := range ownTables() {
		all = append(all, engine.Do(table))
	}
	all = append(all, engine.Do(`INSERT INTO lease(one, holder, next, token, settled, fence, beat, url, wall_ms, schema)
		VALUES (1, ?, '', '', 0, ?, 1, ?, 0, ?)`, claim.Gateway, fence, claim.URL, int64(claim.Schema)))
	_, err = db.Batch(ctx, all)
	return fence, err
}

// Strip takes the tables of this package out of a copy that is not to be a shared store.
func Strip(ctx context.Context, db Engine) error {
	_, err := db.Batch(ctx, strip())
	return err
}

func strip() []engine.Statement {
	return []engine.Statement{engine.Do("DROP TABLE IF EXISTS batches"), engine.Do("DROP TABLE IF EXISTS lease")}
}

// Counts returns the number of rows of each table, without those of this package. It is empty if nothing is in the database.
func Counts(ctx context.Context, db engine.Querier) (map[string]int64, error) {
	names, err := engine.All(ctx, db, (*engine.Row).Text, engine.Do(`SELECT name FROM sqlite_master
		WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT IN ('lease', 'batches') ORDER BY name`))
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	for _, name := range names {
		rows, err := engine.First(ctx, db, (*engine.Row).Number, engine.Do(`SELECT count(*) FROM "`+name+`"`))
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", name, err)
		}
		counts[name] = rows
	}
	return counts, nil
}

// Same returns nil if a database is sound and its tables have as many rows as want says. It is for a file: nodes have no time to look
// through a large database.
func Same(ctx context.Context, db engine.Querier, want map[string]int64) error {
	found, err := engine.All(ctx, db, (*engine.Row).Text, engine.Do("PRAGMA integrity_check(5)"))
	if err != nil {
		return err
	}
	if !slices.Equal(found, []string{"ok"}) {
		return fmt.Errorf("the copy is damaged: %q", found)
	}
	return SameRows(ctx, db, want)
}

// SameRows returns nil if the tables of a database have as many rows as want says.
func SameRows(ctx context.Context, db engine.Querier, want map[string]int64) error {
	got, err := Counts(ctx, db)
	if err != nil || maps.Equal(got, want) {
		return err
	}
	return fmt.Errorf("the copy has not the same rows: %v, and there are %v", got, want)
}

// Load puts the database in a file, which Furnish has prepared, in the place of the one that the nodes have, on all of them at once.
// Whoever held the lease is deposed by that, and this process has it: Hold must be called at once. It is sent only once: a second copy that
// comes late would undo what was written meanwhile. So if the answer is lost, the fence says whether the database is there.
func (db *DB) Load(ctx context.Context, path string, fence int64) error {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	var err error
	for range db.base {
		at := int(db.next.Load()) % len(db.base)
		err = db.loadAt(ctx, db.base[at], path)
		var failed *failure
		if !errors.As(err, &failed) || failed.unknown || failed.final {
			break
		}
		db.next.CompareAndSwap(int64(at), int64((at+1)%len(db.base)))
	}
	var failed *failure
	if errors.As(err, &failed) && !failed.unknown {
		return err
	}
	if missing := db.loaded(ctx, fence); missing != nil {
		return errors.Join(missing, err)
	}
	db.fence.Store(fence)
	db.beat.Store(0)
	db.hold(db.now())
	return nil
}

func (db *DB) loadAt(ctx context.Context, base, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/db/load?timeout="+loadTime.String(), f)
	if err != nil {
		return err
	}
	request.ContentLength = info.Size()
	request.Header.Set("Content-Type", "application/octet-stream")
	response, err := db.do(request)
	if err != nil {
		return &failure{err: err, unknown: !unread(err)}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return &failure{err: err, unknown: true}
	}
	if failed := faulty(response.StatusCode, raw); failed != nil {
		return failed
	}
	r, err := decode(raw, 0)
	if err == nil && r.Error != "" {
		err = errors.New("rqlite: " + r.Error)
	}
	if err != nil {
		return &failure{err: err, unknown: true}
	}
	return nil
}

// loaded waits until the nodes have a database with this fence.
func (db *DB) loaded(ctx context.Context, fence int64) error {
	for end := time.Now().Add(confirmTime); ; {
		now, err := db.Lease(engine.Fresh(ctx))
		if err == nil && now.Fence >= fence {
			return nil
		}
		if err == nil {
			err = errors.New("the nodes have not taken the database")
		}
		if !time.Now().Before(end) {
			return err
		}
		if stopped := db.pause(ctx, time.Second); stopped != nil {
			return errors.Join(stopped, err)
		}
	}
}
