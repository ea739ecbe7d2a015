package task

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"

	"muster/agent/wire"
	"muster/store"
)

// Started notes that the claimer begins with a task. A second call changes nothing.
func (d *Service) Started(ctx context.Context, c Claimer, taskID string) (wire.TaskProgress, error) {
	err := d.Store.StartTask(ctx, taskID, c.Fingerprint, d.Now())
	if err == nil {
		d.hear(taskID)
		d.Moved(c.NodeID, taskID)
		return wire.TaskProgress{}, d.recount(ctx, c.NodeID)
	}
	if !errors.Is(err, store.ErrConflict) {
		return wire.TaskProgress{}, err
	}
	ctx = store.Fresh(ctx)
	work, err := d.work(ctx, taskID, "")
	if err != nil {
		return wire.TaskProgress{}, err
	}
	if work.Status == wire.TaskExpired && mine(c, work) {
		return wire.TaskProgress{}, tooLate(taskID)
	}
	if err := d.refusal(ctx, c, taskID, work, ""); err != nil {
		return wire.TaskProgress{}, err
	}
	if begun := work.Status == wire.TaskRunning; work.CancelAsked || begun {
		return wire.TaskProgress{Cancel: work.CancelAsked, Begun: begun}, nil
	}
	return wire.TaskProgress{}, tooLate(taskID)
}

func tooLate(taskID string) error {
	return wire.Refuse(wire.CodeTaskExpired, "the time of task "+taskID+" was over before it began", "make a new one")
}

// Output takes what a task has written since. It leaves out what is on record already, so the same call again changes nothing.
func (d *Service) Output(ctx context.Context, c Claimer, taskID string, q wire.TaskOutput) (wire.TaskProgress, error) {
	if err := checkOutput(q); err != nil {
		return wire.TaskProgress{}, err
	}
	work, err := d.work(ctx, taskID, q.File)
	if err == nil {
		err = d.refusal(ctx, c, taskID, work, "")
	}
	if err == nil && q.File == wire.TaskArchive {
		err = checkArchive(work, q)
	}
	if err != nil {
		return wire.TaskProgress{}, err
	}
	progress := wire.TaskProgress{Cancel: work.CancelAsked}
	if q.File == wire.TaskProbe {
		progress.Data = make([]byte, min(q.Offset, wire.MaxTaskPiece))
		rand.Read(progress.Data) // nothing on the way can make it shorter
		return progress, nil
	}
	if known := work.End - q.Offset; known > 0 {
		q.Data = q.Data[min(known, int64(len(q.Data))):]
		q.Offset = work.End
	}
	if len(q.Data) == 0 {
		return progress, nil
	}
	piece := store.TaskOutput{ID: taskID, Fingerprint: c.Fingerprint, File: q.File, TaskPiece: store.TaskPiece{Offset: q.Offset, Data: q.Data}}
	if q.File == "" {
		piece.Head = wire.MaxTaskHead
		piece.Tail = wire.MaxTaskTail
	}
	err = d.Store.AddTaskOutput(ctx, piece)
	if errors.Is(err, store.ErrConflict) {
		return progress, wire.Refuse(wire.CodeUnavailable, "the task changed while this came", "send it again")
	}
	d.ringFollowers(taskID)
	return progress, err
}

func checkOutput(q wire.TaskOutput) error {
	switch {
	case !slices.Contains([]string{"", wire.TaskArchive, wire.TaskProbe}, q.File):
		return wire.Refuse(wire.CodeBadRequest, "a task has no such file", `leave it out, or "`+wire.TaskArchive+`"`)
	case q.Offset < 0 || len(q.Data) > wire.MaxTaskPiece:
		return wire.Refuse(wire.CodeBadRequest, "the offset or the length of the data is out of bounds",
			"at most "+strconv.Itoa(wire.MaxTaskPiece)+" bytes in one request")
	case q.File == wire.TaskArchive && q.Offset+int64(len(q.Data)) > wire.MaxTaskArchive:
		return wire.Refuse(wire.CodeBadRequest, "the file of a task is too large", "at most "+strconv.Itoa(wire.MaxTaskArchive)+" bytes")
	case q.Offset > 1<<53: // what a number in JSON can hold
		return wire.Refuse(wire.CodeBadRequest, "the offset is out of bounds", "it counts bytes")
	}
	return nil
}

// checkArchive refuses what would let a node fill the disk: a file that nobody asked for, and one in pieces of a few bytes. A piece that
// comes again is no mistake.
func checkArchive(work store.TaskWork, q wire.TaskOutput) error {
	kind, err := wire.FindTaskType(work.Type)
	end := q.Offset + int64(len(q.Data))
	switch {
	case err != nil || !kind.File:
		return wire.Refuse(wire.CodeBadRequest, "a task of type "+work.Type+" makes no file", "send what it writes as its output")
	case q.Offset%wire.MaxTaskPiece != 0, q.Offset < work.End && end > work.End:
		return wire.Refuse(wire.CodeBadRequest, "the pieces of the file are not as they should be",
			"each has "+strconv.Itoa(wire.MaxTaskPiece)+" bytes, and the last one the rest")
	}
	return nil
}

// work looks at a task, and at the end of one of its files.
func (d *Service) work(ctx context.Context, taskID, file string) (store.TaskWork, error) {
	work, err := d.Store.TaskWork(ctx, taskID, file)
	if errors.Is(err, store.ErrNotFound) {
		return work, noTask(taskID)
	}
	return work, err
}

// mine tells whether a task is for the enrolment of this claimer.
func mine(c Claimer, work store.TaskWork) bool {
	return work.NodeID == c.NodeID && work.EnrolmentID == c.Enrolment
}

// refusal says why a claimer may not report on a task; nil: it may, and is heard. A refusal is an event for the auditor. said is the
// status that a result would have given the task; "": it is no result.
func (d *Service) refusal(ctx context.Context, c Claimer, taskID string, work store.TaskWork, said string) error {
	var refused *wire.ErrorDetail
	switch ended := wire.TaskEnded(work.Status); {
	case !mine(c, work), !ended && work.ClaimFingerprint != c.Fingerprint:
		refused = wire.Refuse(wire.CodeClaimMismatch, "another identity has claimed task "+taskID, "only that one may report on it")
	case ended:
		refused = wire.Refuse(wire.CodeTaskFinished, "task "+taskID+" has ended: "+work.Status, "nothing more is taken")
	default:
		d.hear(taskID)
		return nil
	}
	d.record(ctx, store.Event{At: d.Now(), Kind: "task.result_refused", Actor: "node:" + c.NodeID, NodeID: work.NodeID,
		NodeName: work.NodeName, Tenant: work.Tenant, Address: c.Address, Outcome: refused.Code, Security: true,
		Detail: map[string]string{"task": taskID, "type": work.Type, "status": work.Status, "said": said, "fingerprint": c.Fingerprint,
			"claim_fingerprint": work.ClaimFingerprint}})
	return refused
}
