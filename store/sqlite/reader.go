package sqlite

import (
	"context"
	"database/sql"
	"sync"

	"muster/store/engine"
)

// maxPrepared bounds the prepared reads. Every selector that a person writes is a new text.
const maxPrepared = 128

// reader answers queries from a pool of connections. It is safe for concurrent use.
type reader struct {
	db       *sql.DB
	mu       sync.Mutex
	prepared map[string]*sql.Stmt
}

func (r *reader) query(ctx context.Context, st engine.Statement) ([][]any, error) {
	rows, err := r.run(ctx, st)
	return rows, damaged(err)
}

func (r *reader) run(ctx context.Context, st engine.Statement) ([][]any, error) {
	prepared, err := r.prepare(ctx, st.SQL)
	if err != nil {
		return nil, err
	}
	var rows *sql.Rows
	if prepared == nil {
		rows, err = r.db.QueryContext(ctx, st.SQL, st.Args...)
	} else {
		rows, err = prepared.QueryContext(ctx, st.Args...)
	}
	if err != nil {
		return nil, err
	}
	return collect(rows)
}

// prepare returns the prepared statement for a text. It returns nil and no error if there are maxPrepared others already.
func (r *reader) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.prepared[text]; st != nil || len(r.prepared) >= maxPrepared {
		return st, nil
	}
	st, err := r.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	r.prepared[text] = st
	return st, nil
}

func (r *reader) close() error { return r.db.Close() }

// collect reads rows to their end and closes them.
func collect(rows *sql.Rows) ([][]any, error) {
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all [][]any
	places := make([]any, len(columns))
	for rows.Next() {
		row := make([]any, len(columns))
		for i := range row {
			places[i] = &row[i]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
