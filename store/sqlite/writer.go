package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"time"

	"muster/store/engine"
)

// maxGroup is how many batches share one commit at most.
const maxGroup = 256

// job is one caller's batch. After the writer has taken it from the queue, the caller waits for the answer and must not change it.
type job struct {
	ctx        context.Context
	statements []engine.Statement
	answer     chan<- answer // has room for the one answer, so the writer never waits
}

type answer struct {
	results []engine.Result
	err     error
}

// writer is the one connection that writes. Callers send their batches to its goroutine. It commits all waiting batches together,
// so that they share one fsync. Fields without a comment belong to that goroutine once start has been called.
type writer struct {
	db       *sql.DB
	conn     *sql.Conn // nil after a fault, until it is opened again
	prepared map[string]*sql.Stmt
	queue    chan job      // unbuffered: the caller can withdraw a batch that the writer has not taken
	closing  chan struct{} // closed by close
	closed   chan struct{} // closed when the goroutine has ended
	running  bool          // the goroutine was started
	outages  engine.Outages
}

func openWriter(ctx context.Context, source string) (*writer, error) {
	db, err := sql.Open(driverName, source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	w := &writer{db: db, queue: make(chan job), closing: make(chan struct{}), closed: make(chan struct{}), outages: engine.Outages{Now: time.Now}}
	if err := w.connect(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return w, nil
}

// connect opens the connection, unless there is one.
func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn = conn
	w.prepared = map[string]*sql.Stmt{}
	return nil
}

// batch sends statements to the writer and waits for the answer. If ctx ends before the writer takes them, they are withdrawn. After
// that the caller waits for the commit, because it must learn whether they were written.
func (w *writer) batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error) {
	answers := make(chan answer, 1)
	select {
	case <-w.closing:
		return nil, engine.ErrClosed
	default:
	}
	select {
	case w.queue <- job{ctx: ctx, statements: statements, answer: answers}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.closing:
		return nil, engine.ErrClosed
	}
	a := <-answers
	return a.results, a.err
}

// start begins to serve batches. Migrations use the connection without the goroutine, so they must be done.
func (w *writer) start() {
	w.running = true
	go w.run()
}

func (w *writer) run() {
	defer close(w.closed)
	for {
		select {
		case first := <-w.queue:
			w.commit(w.group(first))
		case <-w.closing:
			return
		}
	}
}

// group takes the batches that wait. It lets other goroutines run first: callers that the last commit answered can then send their
// next batches, which join this group.
func (w *writer) group(first job) []job {
	runtime.Gosched()
	jobs := []job{first}
	for len(jobs) < maxGroup {
		select {
		case next := <-w.queue:
			jobs = append(jobs, next)
		default:
			return jobs
		}
	}
	return jobs
}

// commit runs a group in one transaction and answers every caller.
func (w *writer) commit(jobs []job) {
	answers := make([]answer, len(jobs))
	var failed *engine.Outage
	if err := w.transaction(jobs, answers); err != nil {
		failed = outage(err)
		for i := range answers {
			answers[i] = answer{err: failed}
		}
		w.disconnect()
	}
	w.outages.Note(failed)
	for i, j := range jobs {
		j.answer <- answers[i]
	}
}

// transaction runs a group and fills in the answers. Its error concerns the whole group. Savepoints cost a third of the speed, so it
// tries without them first. If a batch fails, it undoes everything and runs it again, with each batch in a savepoint. A group of one
// needs no second run: its answer is known.
func (w *writer) transaction(jobs []job, answers []answer) error {
	if err := w.connect(context.Background()); err != nil {
		return err
	}
	for _, savepoints := range []bool{false, true} {
		failed, err := w.attempt(jobs, answers, savepoints)
		if err != nil {
			return err
		}
		if !failed {
			return w.exec("COMMIT")
		}
		if err := w.exec("ROLLBACK"); err != nil || len(jobs) == 1 {
			return err
		}
	}
	return nil
}

// attempt begins a transaction and runs the group in it. failed says that the caller must roll it back: a batch failed halfway, and
// had no savepoint.
func (w *writer) attempt(jobs []job, answers []answer, savepoints bool) (failed bool, err error) {
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return false, err
	}
	for i, j := range jobs {
		if err := j.ctx.Err(); err != nil {
			answers[i] = answer{err: err}
			continue
		}
		run := w.statements
		if savepoints {
			run = w.isolated
		}
		if answers[i], err = run(j.statements); err != nil {
			return false, err
		}
		if answers[i].err != nil && !savepoints {
			return true, nil
		}
	}
	return false, nil
}

// isolated runs one batch inside a savepoint. If one of its statements fails, the error is in the answer and the other batches go
// on. The second result is an error of the whole transaction.
func (w *writer) isolated(statements []engine.Statement) (answer, error) {
	if err := w.exec("SAVEPOINT batch"); err != nil {
		return answer{}, err
	}
	a, err := w.statements(statements)
	if err != nil {
		return answer{}, err
	}
	if a.err != nil {
		if err := w.exec("ROLLBACK TO batch"); err != nil {
			return answer{}, err
		}
	}
	return a, w.exec("RELEASE batch")
}

// statements runs one batch up to the first statement that fails. Its results are those of isolated.
func (w *writer) statements(statements []engine.Statement) (answer, error) {
	results := make([]engine.Result, len(statements))
	for i, st := range statements {
		r, err := w.one(st)
		switch {
		case err == nil:
			results[i] = r
		case ofStatement(err):
			return answer{err: conflict(err)}, nil
		default:
			return answer{}, err
		}
	}
	return answer{results: results}, nil
}

func (w *writer) one(st engine.Statement) (engine.Result, error) {
	prepared, err := w.prepare(st.SQL)
	if err != nil {
		return engine.Result{}, err
	}
	done, err := prepared.Exec(st.Args...)
	if err != nil {
		return engine.Result{}, err
	}
	affected, err := done.RowsAffected()
	return engine.Result{Affected: affected}, err
}

func (w *writer) exec(text string) error {
	prepared, err := w.prepare(text)
	if err != nil {
		return err
	}
	_, err = prepared.Exec()
	return err
}

// prepare compiles a statement once for the life of the connection. It needs no bound, because the texts of writes are few.
func (w *writer) prepare(text string) (*sql.Stmt, error) {
	if st := w.prepared[text]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	w.prepared[text] = st
	return st, nil
}

// disconnect drops the connection after a fault, together with its open transaction. The next group opens a new connection.
func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	for _, st := range w.prepared {
		_ = st.Close() // the connection goes with it
	}
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // makes database/sql close it
	w.conn = nil
	w.prepared = nil
}

// close waits for the group that is being written.
func (w *writer) close() error {
	close(w.closing)
	if w.running {
		<-w.closed
	}
	for _, st := range w.prepared {
		_ = st.Close()
	}
	if w.conn != nil {
		_ = w.conn.Close() // into the pool, whose Close reports
	}
	return w.db.Close()
}
