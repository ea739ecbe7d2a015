package store

import (
	"context"
	"errors"
	"time"

	"muster/store/engine"
)

// TaskClaim says who asks for work, and under which conditions a task is given out.
type TaskClaim struct {
	NodeID      string
	EnrolmentID string
	Fingerprint string // of the asking certificate, which must be the node's current one
	At          time.Time
	Active      string    // the state in which a node gets tasks of all types; in others it gets those that are marked Drained
	Without     string    // a reason with which a node gets none
	Again       time.Time // a task that was given to the asking certificate before this time, and was not begun, is given again
	Deliveries  int       // a task is given out so often at most
}

// claimable selects the oldest task that a claim gets. A node gets one task of a type at a time, and one on a subject: the next one stays
// here, where it can still be canceled or expire. What a later task on its subject has overtaken is not given out any more.
const claimable = `SELECT t.number FROM tasks t JOIN nodes n ON n.id = t.node_id
	WHERE t.node_id = ? AND t.finished_at IS NULL AND t.expires_at > ? AND t.enrolment_id = ? AND n.enrolment_id = t.enrolment_id
		AND n.retired_at IS NULL AND n.banned = 0
		AND EXISTS(SELECT 1 FROM certificates c WHERE c.fingerprint = ? AND c.node_id = n.id AND c.enrolment_id = n.enrolment_id
			AND c.status = 'current')
		AND NOT EXISTS(SELECT 1 FROM reasons WHERE node_id = n.id AND reason = ?)
		AND (t.status = 'queued' AND (n.state = ? OR t.drained = 1) AND NOT ` + taskBehind + ` AND NOT ` + taskOvertaken + `
			OR t.status = 'dispatched' AND t.claim_fingerprint = ? AND t.delivered_at < ? AND t.deliveries < ?)
	ORDER BY t.number LIMIT 1`

func (c TaskClaim) args() []any {
	return []any{c.NodeID, millis(c.At), c.EnrolmentID, c.Fingerprint, c.Without, c.Active, c.Fingerprint, millis(c.Again),
		int64(c.Deliveries)}
}

// claimTries bounds how often a claim chooses again, when another one has taken the task that it had chosen.
const claimTries = 10

// ClaimTask gives a node its next task, and binds the task to the certificate that asked. ErrNotFound if there is none; then it does not
// write. Only ID, Payload, Signature, SigningKeyID and Deliveries of the task are filled in.
//
// It chooses the task first. The write checks every condition, and that this task is the next one still. So two claims never get the same
// task, and a claim knows what it got even if the answer to the write is lost.
func (s *Store) ClaimTask(ctx context.Context, c TaskClaim) (Task, error) {
	for try := 1; ; try++ {
		t, err := first(ctx, s, readClaimable, do("SELECT number, id, payload, signature, signing_key_id, deliveries FROM tasks WHERE number = ("+
			claimable+")", c.args()...))
		if err != nil {
			return Task{}, err
		}
		err = s.change(ctx, []statement{
			guard("? = ("+claimable+")", append([]any{t.Number}, c.args()...)...),
			do(`UPDATE tasks SET status = 'dispatched', claim_fingerprint = ?, claimed_at = COALESCE(claimed_at, ?), delivered_at = ?,
				deliveries = deliveries + 1 WHERE number = ?`, c.Fingerprint, millis(c.At), millis(c.At), t.Number),
		}, nil)
		if err == nil || !errors.Is(err, ErrConflict) || try == claimTries {
			t.Deliveries++
			t.Number = 0
			return t, err
		}
	}
}

func readClaimable(r *row) Task {
	return Task{Number: r.Number(), ID: r.Text(), Payload: r.Bytes(), Signature: r.Bytes(), SigningKeyID: r.Text(),
		Deliveries: int(r.Number())}
}

// StartTask notes that the claimer begins. ErrConflict if this certificate has no claim on it, or if the task is not dispatched any
// more, is to be canceled, or has expired.
func (s *Store) StartTask(ctx context.Context, id, fingerprint string, at time.Time) error {
	begins := engine.In("tasks", "id = ? AND claim_fingerprint = ? AND status = 'dispatched' AND cancel_asked_at IS NULL AND expires_at > ?",
		id, fingerprint, millis(at))
	return s.change(ctx, begins.Update("status = 'running', started_at = ?", millis(at)), nil)
}

// TaskResult is what a claimer says about the end of a task.
type TaskResult struct {
	ID          string
	Fingerprint string
	Status      string
	At          time.Time
	TaskEnd
	Head []byte // of what it has written; it takes the place of all that is on record
	Tail []byte // the rest, up to Bytes
}

// FinishTask ends a task. ErrConflict if it has ended, or if this certificate has no claim on it.
func (s *Store) FinishTask(ctx context.Context, t TaskResult, events ...Event) error {
	statements := []statement{
		guard("EXISTS(SELECT 1 FROM tasks WHERE id = ? AND claim_fingerprint = ? AND finished_at IS NULL AND status <> 'queued')", t.ID,
			t.Fingerprint),
		t.update(),
		do("DELETE FROM task_pieces WHERE task = ? AND (file = '' OR ? = '')", t.ID, t.file().SHA256),
	}
	statements = append(statements, insertPiece(t.ID, "", TaskPiece{0, t.Head})...)
	statements = append(statements, insertPiece(t.ID, "", TaskPiece{t.Bytes - int64(len(t.Tail)), t.Tail})...)
	return s.change(ctx, statements, events)
}

func (t TaskResult) update() statement {
	var exit any
	if t.ExitCode != nil {
		exit = int64(*t.ExitCode)
	}
	file := t.file()
	return do(`UPDATE tasks SET status = ?, finished_at = max(?, COALESCE(started_at, claimed_at)), exit_code = ?, code = ?, error = ?,
			found = ?, bytes = ?, truncated = ?, archive_name = ?, archive_size = ?, archive_sha256 = ?, result_digest = ?, proof = ?
		WHERE id = ?`,
		t.Status, millis(t.At), exit, t.Code, t.Error, t.Values, t.Bytes, flag(t.Truncated), file.Name, file.Size, file.SHA256, t.Digest,
		t.Proof, t.ID)
}

func (t TaskResult) file() TaskFile {
	if t.Archive == nil {
		return TaskFile{}
	}
	return *t.Archive
}

// moveClaims gives the open claims of a node's current certificate to the one that takes its place. It comes before the current one
// becomes superseded.
func moveClaims(fingerprint string) statement {
	return do(`UPDATE tasks SET claim_fingerprint = ? WHERE node_id = (SELECT node_id FROM certificates WHERE fingerprint = ?)
		AND finished_at IS NULL AND status <> 'queued' AND claim_fingerprint = (SELECT c.fingerprint FROM certificates c
			WHERE c.node_id = tasks.node_id AND c.status = 'current' AND c.status IN ('current', 'pending'))`, fingerprint, fingerprint)
}
