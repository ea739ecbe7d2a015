package releases

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Channel points at a release.
type Channel struct {
	Channel   string    `sql:"channel"`
	Digest    string    `sql:"digest"`
	Previous  string    `sql:"previous"` // the release to go back to: the last one before that has finished; "": none
	Sequence  int64     `sql:"seq"`      // of its present pointer
	Last      int64     `sql:"last"`     // the highest number that was ever taken on it
	UpdatedAt time.Time `sql:"updated_at"`
	UpdatedBy string    `sql:"updated_by"`
	Finished  bool      `sql:"finished"` // this release has come to all nodes here once
	Reported  int64     `sql:"reported"` // the highest number that nodes have obeyed and that a restored database does not know of; 0: none
}

// Pointer is a signed pointer.
type Pointer struct {
	Channel   string    `sql:"channel"`
	Sequence  int64     `sql:"seq"`
	Digest    string    `sql:"digest"`
	KeyID     string    `sql:"key_id"` // of the key that signed
	Own       bool      `sql:"own"`    // the gateway signed it
	SignedAt  time.Time `sql:"signed_at"`
	ExpiresAt time.Time `sql:"expires_at"`
	SignedBy  string    `sql:"signed_by"` // who had it signed
	Envelope  string    `sql:"envelope"`  // JSON
}

// Step is a change of what a channel points at. It takes the pointer's number.
type Step struct {
	Pointer
	Last    int64    // the highest number before; another one is a conflict. 0: there is no such channel yet
	Rollout *Rollout // begins with the pointer and ends the open one; nil: the same release goes on
}

var (
	channels = engine.NewTable[Channel]("channels", "", "")
	pointers = engine.NewTable[Pointer]("pointers", "p", "")
)

// Channels returns all channels, by name.
func (r Records) Channels(ctx context.Context) ([]Channel, error) {
	return channels.All(ctx, r.db, "ORDER BY channel")
}

// Pointers returns the pointers that nodes can be offered now: those of the channels, and of pins.
func (r Records) Pointers(ctx context.Context) ([]Pointer, error) {
	return pointers.All(ctx, r.db, `WHERE seq = (SELECT seq FROM channels WHERE channel = p.channel)
		OR EXISTS(SELECT 1 FROM pins WHERE channel = p.channel AND seq = p.seq AND digest <> '')`)
}

// hasFinished is true if nobody is harmed who is taken back to a channel's present release: its rollout came to its end once, or it is
// the first that the channel had, and was not stopped. If there is another one to go back to, it is not one that a person has just
// aborted, or that too many nodes went back from: it is bad after all.
const hasFinished = `(finished = 1 AND (previous = '' OR NOT EXISTS(SELECT 1 FROM rollouts o WHERE o.channel = channels.channel
		AND o.digest = channels.digest AND o.state IN ('halted', 'aborted', 'taken_back')
		AND o.number = (SELECT max(number) FROM rollouts WHERE channel = o.channel)))
	OR previous = '' AND NOT EXISTS(SELECT 1 FROM rollouts o WHERE o.channel = channels.channel
		AND (o.digest <> channels.digest OR o.state IN ('halted', 'aborted', 'taken_back'))))`

// Point changes what a channel points at. If the channel points at this release already, its previous release stays. A release whose
// rollout has not finished never becomes the previous one: nobody may be taken back to it. ErrConflict if another change took a number
// since Last was read, or if there is no such release.
func (r Records) Point(ctx context.Context, s Step, events ...store.Event) error {
	p := s.Pointer
	statements := []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM releases WHERE digest = ?)", p.Digest),
		free(p.Channel, s.Last, p.Sequence),
		engine.Do(`INSERT INTO channels(channel, digest, previous, seq, last, updated_at, updated_by, finished)
				VALUES (?, ?, '', ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET previous = CASE WHEN digest = excluded.digest THEN previous WHEN `+hasFinished+` THEN digest
					WHEN previous = excluded.digest THEN '' ELSE previous END,
				finished = CASE WHEN digest = excluded.digest THEN finished ELSE previous = excluded.digest END, digest = excluded.digest,
				seq = excluded.seq, last = excluded.last, updated_at = excluded.updated_at, updated_by = excluded.updated_by, reported = 0`,
			p.Channel, p.Digest, p.Sequence, p.Sequence, engine.Millis(p.SignedAt), p.SignedBy, engine.Flag(s.Rollout == nil)),
		pointers.Insert(p, ""),
	}
	if s.Rollout != nil {
		statements = append(statements, begin(*s.Rollout)...)
	}
	return r.db.Change(ctx, statements, events...)
}

// Behind notes the highest number that nodes have obeyed on a channel, if the restored database does not know of it. The note stays until a
// person points the channel at something.
func (r Records) Behind(ctx context.Context, channel string, reported int64, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("UPDATE channels SET reported = max(reported, ?) WHERE channel = ?", reported, channel),
	}, events...)
}

// Refresh replaces a pointer by one that has the same number and release, and lives longer. ErrConflict if the number stands for another
// one.
func (r Records) Refresh(ctx context.Context, p Pointer, events ...store.Event) error {
	own := engine.In("pointers", "channel = ? AND seq = ? AND digest = ? AND own = 1", p.Channel, p.Sequence, p.Digest)
	return r.db.Change(ctx, own.Update("key_id = ?, signed_at = ?, expires_at = ?, envelope = ?", p.KeyID, engine.Millis(p.SignedAt),
		engine.Millis(p.ExpiresAt), p.Envelope), events...)
}

// free is the guard that the next number of a channel was not taken since last was read, and that the number rises.
func free(channel string, last, next int64) engine.Statement {
	return engine.Guard("COALESCE((SELECT last FROM channels WHERE channel = ?), 0) = ? AND ? > ?", channel, last, next, last)
}
