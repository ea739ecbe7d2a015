package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// Result ends a task. body is the TaskResult as it came. The same result again gets the same answer, also under a renewed certificate.
func (d *Service) Result(ctx context.Context, c Claimer, taskID string, body []byte) error {
	var q wire.TaskResult
	if err := sign.DecodeOnce(body, &q); err != nil {
		return wire.Refuse(wire.CodeBadRequest, "the body is not a task's result in JSON", "agent and gateway must be of the same protocol")
	}
	if err := checkResult(q); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	if known, err := d.judge(ctx, c, taskID, q.Status, digest); known || err != nil {
		return err
	}
	end, err := d.end(ctx, taskID, q)
	if err != nil {
		return err
	}
	end.Digest = digest
	end.Proof = c.Proof
	r := store.TaskResult{ID: taskID, Fingerprint: c.Fingerprint, Status: q.Status, At: d.Now(), TaskEnd: end, Head: q.Output.Head,
		Tail: q.Output.Tail}
	if q.FinishedAt.Before(r.At) { // it may have been kept while the gateway was away
		r.At = q.FinishedAt
	}
	err = d.finish(ctx, c, r)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	known, err := d.judge(store.Fresh(ctx), c, taskID, q.Status, digest)
	if !known && err == nil {
		return wire.Refuse(wire.CodeUnavailable, "the task changed while this came", "send it again")
	}
	return err
}

// judge tells whether this result is on record already, and refuses one that may not be given.
func (d *Service) judge(ctx context.Context, c Claimer, taskID, status, digest string) (known bool, err error) {
	work, err := d.work(ctx, taskID, "")
	if err != nil {
		return false, err
	}
	// What the gateway ended because its time was over, or somebody canceled it, its claimer may end in the same way.
	agreed := work.Digest == "" && work.Status == status && (status == wire.TaskExpired || status == wire.TaskCanceled)
	if mine(c, work) && wire.TaskEnded(work.Status) && (agreed || work.Digest == digest) {
		return true, nil
	}
	return false, d.refusal(ctx, c, taskID, work, status)
}

// finish writes a result with its event.
func (d *Service) finish(ctx context.Context, c Claimer, r store.TaskResult) error {
	t, err := d.Task(ctx, "", r.ID)
	if err != nil {
		return err
	}
	detail := map[string]string{"task": t.ID, "type": t.Type, "fingerprint": c.Fingerprint}
	if r.ExitCode != nil {
		detail["exit_code"] = strconv.Itoa(*r.ExitCode)
	}
	if r.Code != "" {
		detail["code"] = r.Code
	}
	err = d.Store.FinishTask(ctx, r, store.Event{At: d.Now(), Kind: "task.finished", Actor: "node:" + c.NodeID, NodeID: t.NodeID,
		NodeName: t.NodeName, Tenant: t.Tenant, Address: c.Address, Outcome: r.Status, Detail: detail})
	if err != nil {
		return err
	}
	d.ringFollowers(r.ID)
	return d.recount(ctx, c.NodeID)
}

// end is what a result says, as it is kept. A file that did not arrive whole is left out, and the error says so: the rest of the result
// must not be lost for it.
func (d *Service) end(ctx context.Context, taskID string, q wire.TaskResult) (store.TaskEnd, error) {
	log := q.Output
	end := store.TaskEnd{ExitCode: q.ExitCode, Code: q.Code, Error: q.Error, Bytes: log.Bytes,
		Truncated: log.Truncated || log.Bytes > int64(len(log.Head)+len(log.Tail))}
	if len(q.Values) > 0 {
		end.Values = encoded(q.Values)
	}
	if q.Archive == nil {
		return end, nil
	}
	size, sum, err := d.received(ctx, taskID)
	if err != nil {
		return end, err
	}
	if size != q.Archive.Size || sum != q.Archive.SHA256 {
		end.Error = strings.TrimPrefix(q.Error+"; its file did not arrive whole", "; ")
		return end, nil
	}
	end.Archive = &store.TaskFile{Name: q.Archive.Name, Size: size, SHA256: sum}
	return end, nil
}

// received is the size and the digest of the file that a task has sent.
func (d *Service) received(ctx context.Context, taskID string) (size int64, sum string, err error) {
	hash := sha256.New()
	err = d.pieces(ctx, taskID, wire.TaskArchive, 0, func(_ int64, data []byte) error {
		size += int64(len(data))
		hash.Write(data)
		return nil
	})
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

// checkResult refuses what no agent of this protocol sends.
func checkResult(q wire.TaskResult) error {
	bad := func(what, hint string) error { return wire.Refuse(wire.CodeBadRequest, what, hint) }
	log := q.Output
	switch {
	case !slices.Contains([]string{wire.TaskCompleted, wire.TaskFailed, wire.TaskCanceled, wire.TaskExpired}, q.Status):
		return bad("a result cannot have the status "+strconv.Quote(q.Status), "completed, failed, canceled or expired")
	case len(log.Head) > wire.MaxTaskHead || len(log.Tail) > wire.MaxTaskTail || log.Bytes < int64(len(log.Head)+len(log.Tail)) ||
		log.Bytes > 1<<53:
		return bad("head, tail and bytes of the output do not fit together", "a head of at most 64 KiB, a tail of at most 192 KiB")
	case len(q.Error) > wire.MaxTaskError || len(q.Code) > maxCode:
		return bad("code or error are too long", "at most "+strconv.Itoa(wire.MaxTaskError)+" bytes")
	case len(encoded(q.Values)) > wire.MaxTaskValues:
		return bad("the values are too large", "at most "+strconv.Itoa(wire.MaxTaskValues)+" bytes of JSON")
	case q.Archive != nil && !fileName(q.Archive.Name):
		return bad("the name of the file is not one for a disk", "letters, digits, dots, dashes and underscores, without a folder")
	}
	return nil
}

const (
	maxCode = 64  // characters
	maxFile = 128 // characters of a file's name
)

// encoded are the values as they are kept. Characters of HTML stay as they are: escaped, they would take six times the space.
func encoded(values wire.TaskValues) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(values); err != nil {
		panic("task: " + err.Error()) // they came as JSON
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// fileName accepts names that no system and no shell reads in another way.
func fileName(name string) bool {
	odd := func(c rune) bool {
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		return !letter && (c < '0' || c > '9') && !strings.ContainsRune("._-", c)
	}
	return name != "" && name[0] != '.' && name[0] != '-' && len(name) <= maxFile && !strings.ContainsFunc(name, odd)
}
