package backup

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/datadir"
	"muster/store"
	"muster/store/alerts"
	"muster/store/instance"
	rentals "muster/store/provider"
)

// restoreSets is how often the newest trust set is published again after a restore. Nodes take no set with a lower number than the one
// they know, and a gateway is not likely to have published more sets than this since the backup.
const restoreSets = 8

// prepare does on the copy what a restore has to do: tokens end, the time begins in which certificates are taken over, and the number
// of the trust set grows. before is the file of the database that is there. last is done at the end.
func (s *site) prepare(ctx context.Context, file string, key []byte, r datadir.Restore, b backup, before string,
	last func(*store.Store) error) (done datadir.Restored, err error) {
	opened := false
	err = edit(ctx, file, key, func(copied *store.Store) error {
		opened = true
		if done, err = note(ctx, copied, r); err != nil {
			return err
		}
		if done.AlertsAway, err = carryAlerts(ctx, copied, before, done.BackupAt); err != nil {
			return err
		}
		done.Blobs = len(b.blobs)
		if r.Shared.Store == "" || b.blobs != nil { // a gateway that shares its store fetches what it lacks from another one
			if done.LostBlobs, err = b.complete(ctx, copied, folderOf(s.keys.Data)); err != nil {
				return fmt.Errorf("the backup %s cannot be used: %w", r.File, err)
			}
		}
		return last(copied)
	})
	if errors.Is(err, store.ErrWrongMasterKey) {
		err = fmt.Errorf("it was sealed with another master key than the one in %s: name the file of the right key with --master-key-file",
			s.keys.Where())
	}
	if err != nil && !opened {
		err = fmt.Errorf("the backup %s cannot be used: %w", r.File, err)
	}
	return done, err
}

// carryAlerts takes over what receivers were told since the backup, from the database that is there. So they hear of no alert twice, and
// of each one that began since they hear the end. away: that cannot be taken over.
func carryAlerts(ctx context.Context, copied *store.Store, file string, made time.Time) (away bool, err error) {
	if !exists(file) {
		return false, nil
	}
	told, err := alerts.Told(ctx, file, made)
	switch {
	case err != nil:
		return true, ctx.Err() // it may be damaged, which is why it is replaced
	case told == nil:
		return false, nil
	}
	if alerts.New(copied.Records()).Replace(ctx, *told) != nil {
		return true, ctx.Err() // a restore is worth more than what receivers hear
	}
	return false, nil
}

// note writes the restore into the copy. The copy is of when a gateway last wrote to it: muster backup notes that, and each gateway every
// few seconds. A file without any such date is refused.
func note(ctx context.Context, s *store.Store, r datadir.Restore) (datadir.Restored, error) {
	at := time.Now().UTC()
	made, err := instance.New(s.Records()).WrittenAt(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return datadir.Restored{}, errors.New("this is no database that a gateway has written to: it has no date in it")
	}
	if err != nil {
		return datadir.Restored{}, err
	}
	done := datadir.Restored{BackupAt: made, AdoptUntil: at.Add(r.AdoptFor)}
	if done.TrustKeyAway, err = repeatSets(ctx, s, r.TrustKeyFile); err != nil {
		return done, err
	}
	event := store.Event{At: at, Kind: "gateway.restored", Actor: actor, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"backup": made.Format(time.RFC3339), "adopt_until": done.AdoptUntil.Format(time.RFC3339)}}
	if err := rentals.New(s.Records()).Restored(ctx, at); err != nil {
		return done, err
	}
	return done, s.NoteRestore(ctx, store.Restoration{At: at, BackupAt: made, AdoptUntil: done.AdoptUntil}, event)
}

// repeatSets publishes the newest trust set again, with higher numbers. It tells whether the trust key is kept elsewhere, so that
// nothing could be signed.
func repeatSets(ctx context.Context, s *store.Store, keyFile string) (keyAway bool, err error) {
	var key ed25519.PrivateKey
	if keyFile != "" {
		if key, err = authority.ReadTrustKey(keyFile); err != nil {
			return false, err
		}
	}
	a, err := authority.Open(ctx, authority.Config{Store: s})
	if err != nil {
		return false, err
	}
	err = a.Repeat(ctx, restoreSets, key, store.Actor{Name: actor})
	if errors.Is(err, authority.ErrTrustKey) {
		return true, nil
	}
	return false, err
}
