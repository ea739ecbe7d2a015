package store

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Keys of what a backup and a restore leave on record, in unix milliseconds.
const (
	metaBackupAt   = "backup_at" // when the newest backup began
	metaRestoredAt = "restored_at"
	metaRestoredOf = "restored_backup_at" // when the backup was made that this database came from
	metaAdoptUntil = "restored_adopt_until"
)

// Restoration says that this database was brought back from a backup.
type Restoration struct {
	At         time.Time // of the restore
	BackupAt   time.Time // what happened after it is not on record
	AdoptUntil time.Time // until then certificates issued since are taken over
}

// NoteBackup records that a backup begins now. It comes before Backup, so that the copy tells its own age.
func (s *Store) NoteBackup(ctx context.Context, at time.Time, events ...Event) error {
	return s.change(ctx, []statement{do(setMeta, metaBackupAt, strconv.FormatInt(millis(at), 10))}, events)
}

// BackupAt is when the newest backup that this database knows of began, or ErrNotFound. In a copy that Backup made, it is
// that copy's own time.
func (s *Store) BackupAt(ctx context.Context) (time.Time, error) {
	return s.metaTime(ctx, metaBackupAt)
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

// NoteRestore records a restore, and ends every token that could still be used: what became of its uses since the backup
// is not known.
func (s *Store) NoteRestore(ctx context.Context, r Restoration, events ...Event) error {
	text := func(t time.Time) string { return strconv.FormatInt(millis(t), 10) }
	return s.change(ctx, []statement{
		do("UPDATE tokens SET revoked_at = ? WHERE revoked_at IS NULL AND expires_at > ?", millis(r.At), millis(r.At)),
		do(setMeta, metaRestoredAt, text(r.At)),
		do(setMeta, metaRestoredOf, text(r.BackupAt)),
		do(setMeta, metaAdoptUntil, text(r.AdoptUntil)),
	}, events)
}

// Restoration returns the last restore, or ErrNotFound.
func (s *Store) Restoration(ctx context.Context) (r Restoration, err error) {
	for _, part := range []struct {
		key string
		to  *time.Time
	}{{metaRestoredAt, &r.At}, {metaRestoredOf, &r.BackupAt}, {metaAdoptUntil, &r.AdoptUntil}} {
		if *part.to, err = s.metaTime(ctx, part.key); err != nil {
			return Restoration{}, err
		}
	}
	return r, nil
}

// Adopt records a certificate that was issued after the backup which this database came from, as the current one of its
// node; c.Generation is the least that it gets. Those on record end as revoked. ErrConflict when the node is not there, never
// enrolled, retired or banned, has had one adopted since that restore, or the key is known.
func (s *Store) Adopt(ctx context.Context, r Restoration, c Certificate, at time.Time, events ...Event) error {
	c.Status = CertificateCurrent
	const ofNode = "(SELECT enrolment_id FROM nodes WHERE id = ?)"
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND retired_at IS NULL AND banned = 0 AND enrolment_id <> '')", c.NodeID),
		do("INSERT INTO meta(key, value) VALUES (?, ?)", "adopted/"+strconv.FormatInt(millis(r.At), 10)+"/"+c.NodeID, c.Fingerprint),
		do("UPDATE certificates SET status = 'revoked', ended_at = COALESCE(ended_at, ?) WHERE node_id = ? AND status <> 'revoked'",
			millis(at), c.NodeID),
		insertCertificate(c),
		do("UPDATE certificates SET enrolment_id = "+ofNode+", generation = max(generation, (SELECT 1 + max(o.generation) "+
			"FROM certificates o WHERE o.node_id = ? AND o.fingerprint <> ?)) WHERE fingerprint = ?",
			c.NodeID, c.NodeID, c.Fingerprint, c.Fingerprint),
	}, events)
}
