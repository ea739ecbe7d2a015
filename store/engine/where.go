package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrBadCursor says that a page's cursor was not made by an earlier page.
var ErrBadCursor = errors.New("bad cursor")

// Where collects the conditions of a query. All of them must be true.
type Where struct {
	Args []any
	text string
}

// And adds a condition. It stands in brackets, so that an OR in it takes nothing from the others.
func (w *Where) And(condition string, args ...any) {
	w.text += " AND (" + condition + ")"
	w.Args = append(w.Args, args...)
}

// Given adds a condition unless the value is empty. Each parameter of the condition is the value.
func (w *Where) Given(condition, value string) {
	if value == "" {
		return
	}
	w.And(condition)
	for range strings.Count(condition, "?") {
		w.Args = append(w.Args, value)
	}
}

// SQL returns the WHERE clause.
func (w *Where) SQL() string {
	if w.text == "" {
		return " "
	}
	return " WHERE" + strings.TrimPrefix(w.text, " AND") + " "
}

// Rows are some rows of a table. In makes them.
type Rows struct {
	table, where string
	args         []any
}

// In names the rows of a table for which a condition is true.
func In(table, condition string, args ...any) Rows { return Rows{table, " WHERE " + condition, args} }

// Update changes the rows. The batch is a conflict if there is none.
func (r Rows) Update(set string, values ...any) []Statement {
	return r.change("UPDATE "+r.table+" SET "+set, values)
}

// Delete deletes the rows. The batch is a conflict if there is none.
func (r Rows) Delete() []Statement { return r.change("DELETE FROM "+r.table, nil) }

func (r Rows) change(text string, values []any) []Statement {
	return []Statement{Guard("EXISTS(SELECT 1 FROM "+r.table+r.where+")", r.args...), Do(text+r.where, slices.Concat(values, r.args)...)}
}

// PageLimit returns how many rows one query returns: 100 if nothing was asked for, and 1000 at most.
func PageLimit(asked int) int {
	const usual, most = 100, 1000
	if asked <= 0 {
		return usual
	}
	return min(asked, most)
}

// Pages are the rows of queries page by page, the highest numbers first.
type Pages[T any] struct {
	Query  func(rest string, args ...any) Statement
	Read   func(*Row) T
	Column string // of the numbers
	Number func(T) int64
}

// Page returns one page, and the cursor of the next one ("": there is none).
func (p Pages[T]) Page(ctx context.Context, db Querier, w Where, limit int, cursor string) (page []T, next string, err error) {
	if cursor != "" {
		number, err := strconv.ParseInt(cursor, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("%w: start again without one", ErrBadCursor)
		}
		w.And(p.Column+" < ?", number)
	}
	limit = PageLimit(limit) // one more is asked for: if it comes, there is a next page
	page, err = All(ctx, db, p.Read, p.Query(w.SQL()+"ORDER BY "+p.Column+" DESC LIMIT ?", append(w.Args, int64(limit)+1)...))
	if err != nil || len(page) <= limit {
		return page, "", err
	}
	return page[:limit], strconv.FormatInt(p.Number(page[limit-1]), 10), nil
}
