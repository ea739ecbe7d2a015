package store

import (
	"context"

	"muster/store/engine"
)

// TaskPiece is a part of what a task has written, or of the file that it has made.
type TaskPiece struct {
	Offset int64
	Data   []byte
}

func (p TaskPiece) end() int64 { return p.Offset + int64(len(p.Data)) }

// TaskWork is what the gateway has to know of a task for each message of its node.
type TaskWork struct {
	NodeID           string `sql:"t.node_id"`
	EnrolmentID      string `sql:"t.enrolment_id"`
	Type             string `sql:"t.type"`
	Status           string `sql:"t.status"`
	ClaimFingerprint string `sql:"t.claim_fingerprint"`
	CancelAsked      bool   `sql:"t.cancel_asked_at IS NOT NULL"`
	Digest           string `sql:"t.result_digest"` // of its result
	End              int64  // of what is on record of the file that was asked for
	NodeName         string `sql:"n.name"`
	Tenant           string `sql:"n.tenant"`
}

// TaskWork returns a task's work, with the end of one of its files ("": its output), or ErrNotFound.
func (s *Store) TaskWork(ctx context.Context, id, file string) (TaskWork, error) {
	return first(ctx, s, func(r *row) TaskWork {
		w := taskWorks.Read(r)
		w.End = r.Number()
		return w
	}, do("SELECT "+taskWorks.Columns+", "+pieceEnd+taskTables+" WHERE t.id = ?", file, id))
}

var taskWorks = engine.NewTable[TaskWork]("tasks", "t", "")

// pieceEnd is where the last piece of a task's file ends. Pieces do not overlap, so that is the one that begins last.
const pieceEnd = "(SELECT p.start + p.size FROM task_pieces p WHERE p.task = t.id AND p.file = ? ORDER BY p.start DESC LIMIT 1)"

// TaskOutput says what is added to what a task has written.
type TaskOutput struct {
	ID          string
	Fingerprint string
	File        string // "": the output
	TaskPiece
	Head int64 // of the output so many bytes of its beginning
	Tail int64 // and of its end are kept; 0: everything is
}

// mostPieces is how many pieces of the beginning, and how many of the end, of what a running task writes are kept. A node that sends
// single bytes would else fill the database with rows.
const mostPieces = 1024

// AddTaskOutput stores a piece behind those that are on record. What lies between the head and the tail goes in the same batch.
// ErrConflict if the piece begins before the end of the last one, or if the task is not running under this certificate's claim.
func (s *Store) AddTaskOutput(ctx context.Context, o TaskOutput) error {
	statements := []statement{
		guard(`EXISTS(SELECT 1 FROM tasks t WHERE t.id = ? AND t.claim_fingerprint = ? AND t.status = 'running'
			AND COALESCE(`+pieceEnd+`, 0) <= ?)`, o.ID, o.Fingerprint, o.File, o.Offset),
	}
	statements = append(statements, insertPiece(o.ID, o.File, o.TaskPiece)...)
	if o.Tail > 0 {
		statements = append(statements, o.dropMiddle()...)
	}
	return s.change(ctx, statements, nil)
}

// dropMiddle deletes what lies between the head and the tail, by bytes and by pieces. The bounds of start keep it from looking through
// the tail each time.
func (o TaskOutput) dropMiddle() []statement {
	const nth = "(SELECT start FROM task_pieces WHERE task = ? AND file = ? ORDER BY start"
	return []statement{
		do("DELETE FROM task_pieces WHERE task = ? AND file = ? AND start >= ? AND start < ? AND start + size <= ?",
			o.ID, o.File, o.Head, o.end()-o.Tail, o.end()-o.Tail),
		do("DELETE FROM task_pieces WHERE task = ? AND file = ? AND start > "+nth+" LIMIT 1 OFFSET ?) AND start < "+nth+
			" DESC LIMIT 1 OFFSET ?)", o.ID, o.File, o.ID, o.File, int64(mostPieces-1), o.ID, o.File, int64(mostPieces-1)),
	}
}

func insertPiece(task, file string, p TaskPiece) []statement {
	if len(p.Data) == 0 {
		return nil
	}
	return []statement{do("INSERT INTO task_pieces(task, file, start, size, data) VALUES (?, ?, ?, ?, ?)", task, file, p.Offset,
		int64(len(p.Data)), engine.Base64(p.Data))}
}

// TaskPieces returns the pieces of a task's file that go beyond an offset, in order, at most limit of them. The first one may begin
// before the offset.
func (s *Store) TaskPieces(ctx context.Context, id, file string, from int64, limit int) ([]TaskPiece, error) {
	return all(ctx, s, func(r *row) TaskPiece { return TaskPiece{Offset: r.Number(), Data: r.Bytes()} },
		do(`SELECT start, data FROM task_pieces WHERE task = ? AND file = ? AND start + size > ? AND start >= COALESCE(
				(SELECT max(start) FROM task_pieces WHERE task = ? AND file = ? AND start <= ?), 0)
			ORDER BY start LIMIT ?`, id, file, from, id, file, from, int64(limit)))
}
