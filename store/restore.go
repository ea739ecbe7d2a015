package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"muster/store/engine"
)

// Meta keys that backups and restores write. Their values are in Unix milliseconds.
const (
	MetaBackupAt   = "backup_at" // when the newest backup began
	MetaRestoredAt = "restored_at"
	metaRestoredOf = "restored_backup_at" // when the backup was made from which this database was restored
	MetaAdoptUntil = "restored_adopt_until"
)

// Restoration says that this database was restored from a backup.
type Restoration struct {
	At         time.Time // when it was restored
	BackupAt   time.Time // when the backup was made; the database knows nothing of the time from then to At
	AdoptUntil time.Time // until then Adopt may record certificates that were issued in that time
}

// NoteBackup records that a backup begins now. The caller does this before Backup, so that the copy holds its own age.
func (s *Store) NoteBackup(ctx context.Context, at time.Time, events ...Event) error {
	return s.change(ctx, []statement{do(setMeta, MetaBackupAt, strconv.FormatInt(millis(at), 10))}, events)
}

// BackupAt returns when the newest backup began that this database knows of, or ErrNotFound. In a copy that Backup made, it is the time
// of that copy.
func (s *Store) BackupAt(ctx context.Context) (time.Time, error) {
	return s.metaTime(ctx, MetaBackupAt)
}

func (s *Store) metaTime(ctx context.Context, key string) (time.Time, error) {
	text, err := s.Meta(ctx, key)
	if err != nil {
		return time.Time{}, err
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("meta " + key + " is no time")
	}
	return time.UnixMilli(number).UTC(), nil
}

// SlotRestored is the reason of a slot that was approved in the backup. It may have been allocated after the backup, so only a person
// approves it again.
const SlotRestored = "restored"

// NoteRestore records a restore. It revokes every token that could still be used, because nobody knows which uses were taken after
// the backup. It ends every open task as lost, because it may have been done after the backup. It ends all logins to the console: a code
// may have been used, and a session ended, after the backup. It ends the approvals of slots: see SlotRestored.
// It drops what was being done with machines of MAAS, because much may have been done with them since.
//
// Tasks, tokens and approvals end in pieces. The restore is on record with the last piece: if it is not, a second call finishes the work.
func (s *Store) NoteRestore(ctx context.Context, r Restoration, events ...Event) error {
	text := func(t time.Time) string { return strconv.FormatInt(millis(t), 10) }
	const usable = "SELECT id FROM tokens WHERE revoked_at IS NULL AND expires_at > ? LIMIT ?"
	const approved = "SELECT id FROM node_resource_slots WHERE decision = 'approved' LIMIT ?"
	for _, piece := range append(loseAll(r.At), []statement{
		do("UPDATE tokens SET revoked_at = ? WHERE id IN ("+usable+")", millis(r.At), millis(r.At), int64(engine.Piece)),
	}, []statement{
		do("UPDATE node_resource_slots SET decision = 'proposed', reason = ?, decided_by = '', decided_at = NULL WHERE id IN ("+approved+")",
			SlotRestored, int64(engine.Piece)),
	}) {
		for n := engine.Piece; n == engine.Piece; {
			var err error
			if n, err = s.Records().Most(ctx, engine.Piece, piece...); err != nil {
				return err
			}
		}
	}
	return s.change(ctx, []statement{
		do("DELETE FROM sessions"), do("DELETE FROM login_codes"), do("DELETE FROM maas_works"),
		do(setMeta, MetaRestoredAt, text(r.At)), do(setMeta, metaRestoredOf, text(r.BackupAt)),
		do(setMeta, MetaAdoptUntil, text(r.AdoptUntil)),
	}, events)
}

// Restoration returns the last restore, or ErrNotFound.
func (s *Store) Restoration(ctx context.Context) (r Restoration, err error) {
	for _, part := range []struct {
		key string
		to  *time.Time
	}{{MetaRestoredAt, &r.At}, {metaRestoredOf, &r.BackupAt}, {MetaAdoptUntil, &r.AdoptUntil}} {
		if *part.to, err = s.metaTime(ctx, part.key); err != nil {
			return Restoration{}, err
		}
	}
	return r, nil
}

// Adopt records a certificate that was issued after the backup from which this database was restored. It becomes its node's current
// certificate, and all others of the node are revoked. Its generation is c.Generation or more. ErrConflict if the node does not
// exist, has never enrolled, is retired or banned, or has adopted one since that restore, or if the key is known.
func (s *Store) Adopt(ctx context.Context, r Restoration, c Certificate, at time.Time, events ...Event) error {
	c.Status = CertificateCurrent
	const ofNode = "(SELECT enrolment_id FROM nodes WHERE id = ?)"
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND retired_at IS NULL AND banned = 0 AND enrolment_id <> '')", c.NodeID),
		do("INSERT INTO meta(key, value) VALUES (?, ?)", "adopted/"+strconv.FormatInt(millis(r.At), 10)+"/"+c.NodeID, c.Fingerprint),
		do("UPDATE certificates SET status = 'revoked', ended_at = COALESCE(ended_at, ?) WHERE node_id = ? AND status <> 'revoked'",
			millis(at), c.NodeID),
		certificates.Insert(c, ""),
		do("UPDATE certificates SET enrolment_id = "+ofNode+", generation = max(generation, (SELECT 1 + max(o.generation) "+
			"FROM certificates o WHERE o.node_id = ? AND o.fingerprint <> ?)) WHERE fingerprint = ?",
			c.NodeID, c.NodeID, c.Fingerprint, c.Fingerprint),
	}, events)
}
