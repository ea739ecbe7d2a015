package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

const (
	// outputPause is the least time between two pieces of output.
	outputPause = 500 * time.Millisecond
	// outputPiece is the most bytes of output in one of them. More than that is not kept anyway.
	outputPiece = wire.MaxTaskHead + wire.MaxTaskTail
)

// call sends a request of this task, and reads the answer into out. in nil: it only asks. The transport speaks for the identity that is
// in use now. A call that a change of the identity cut is made again under the new one.
func (k *work) call(ctx context.Context, path string, in, out any) error {
	for {
		err := k.Client.Call(ctx, path, in, out)
		if !errors.Is(err, transport.ErrIdentityChanged) || ctx.Err() != nil {
			return err
		}
	}
}

// refusedForGood gives the code of a refusal that the same request gets each time; empty: it may be taken later.
func refusedForGood(err error) string {
	var refusal *transport.Refusal
	if !errors.As(err, &refusal) {
		return ""
	}
	switch refusal.Code {
	case wire.CodeTaskFinished, wire.CodeClaimMismatch, wire.CodeNotFound, wire.CodeTaskExpired, wire.CodeBadRequest, wire.CodeBodyTooLarge:
		return refusal.Code
	}
	return ""
}

// insist makes a call until the gateway takes it or refuses it for good, or ctx is done.
func (k *work) insist(ctx context.Context, path string, in, out any) error {
	var backoff transport.Backoff
	for {
		err := k.call(ctx, path, in, out)
		if err == nil || refusedForGood(err) != "" {
			return err
		}
		wait := backoff.After(err)
		k.Logger.Debug("the gateway was not told of a task, trying again", "task", k.Task, "in", wait, "error", err)
		if !transport.Sleep(ctx, wait) {
			return err
		}
	}
}

// tellStarted says that the node begins, until the gateway knows or the task has expired.
func (k *work) tellStarted(ctx context.Context) (wire.TaskProgress, error) {
	bounded, cancel := context.WithTimeout(ctx, k.Expires.Sub(identity.Latest(k.Client)))
	defer cancel()
	var progress wire.TaskProgress
	err := k.insist(bounded, wire.TaskStartedPath(k.Task), wire.TaskStarted{StartedAt: k.now()}, &progress)
	return progress, err
}

// stream sends what the task writes, while it works. Without anything new it says now and then that the task is at work. It learns in
// this way that the task is to end. What does not get through in time is skipped: the result has the beginning and the end.
func (k *work) stream(ctx context.Context, cancel context.CancelCauseFunc) {
	var backoff transport.Backoff
	var sent int64
	news := k.output.news
	timer := time.NewTimer(wire.TaskPulse)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-news:
			if !transport.Sleep(ctx, outputPause) {
				return
			}
		}
		data, at := k.output.since(sent, outputPiece)
		var progress wire.TaskProgress
		err := k.call(ctx, wire.TaskOutputPath(k.Task), wire.TaskOutput{Offset: at, Data: data}, &progress)
		pause := wire.TaskPulse
		news = k.output.news
		switch {
		case err == nil:
			sent = at + int64(len(data))
			backoff.Reset()
		case refusedForGood(err) != "":
			cancel(errUnwanted)
			return
		default:
			pause = max(pause, backoff.After(err))
			news = nil // more output is no reason to ask a gateway again that has just failed
		}
		if progress.Cancel {
			cancel(errCanceled)
		}
		timer.Reset(pause)
	}
}

// probe measures the way: the gateway drops the data, and answers with as many bytes as are wanted.
func (k *work) probe(ctx context.Context, data []byte, want int) error {
	var progress wire.TaskProgress
	err := k.call(ctx, wire.TaskOutputPath(k.Task), wire.TaskOutput{File: wire.TaskProbe, Offset: int64(want), Data: data}, &progress)
	if err == nil && len(progress.Data) != want {
		err = fmt.Errorf("the gateway answered with %d bytes and not with %d", len(progress.Data), want)
	}
	return err
}

// report sends the archive and the result, until the gateway has them or does not want them. over is false if the agent stops before:
// the next run sends them then. taken says that the gateway has the very result.
func (k *work) report() (over, taken bool) {
	if k.Archive != "" {
		if err := k.sendArchive(); err != nil {
			if k.life.Err() != nil {
				return false, false
			}
			k.Logger.Warn("the file of a task was not sent", "task", k.Task, "error", err)
		}
	}
	err := k.insist(k.life, wire.TaskResultPath(k.Task), k.Result, new(struct{}))
	taken = err == nil
	if code := refusedForGood(err); code == wire.CodeBadRequest || code == wire.CodeBodyTooLarge {
		less := k.ended(wire.TaskFailed, "", "the gateway did not take the task's own result: "+err.Error())
		less.Output = wire.TaskLog{Bytes: k.Result.Output.Bytes, Truncated: k.Result.Output.Bytes > 0}
		err = k.insist(k.life, wire.TaskResultPath(k.Task), less, new(struct{}))
	}
	if err != nil && refusedForGood(err) == "" {
		return false, false
	}
	if err != nil {
		k.Logger.Warn("the gateway does not want the result of a task", "task", k.Task, "error", err)
	}
	k.noteJournal(k.journal.report(k.Task))
	return true, taken
}

// sendArchive sends the file piece by piece.
func (k *work) sendArchive() error {
	file, size, err := k.openArchive(k.Archive)
	if err != nil {
		return err
	}
	defer file.Close()
	piece := make([]byte, min(size, wire.MaxTaskPiece))
	for offset := int64(0); offset < size; {
		n, err := file.ReadAt(piece, offset)
		if n == 0 && err != nil {
			return fmt.Errorf("read the file: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
		var progress wire.TaskProgress
		part := wire.TaskOutput{File: wire.TaskArchive, Offset: offset, Data: piece[:n]}
		if err := k.insist(k.life, wire.TaskOutputPath(k.Task), part, &progress); err != nil {
			return err
		}
		offset += int64(n)
	}
	return nil
}
