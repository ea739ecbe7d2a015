package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"muster/gateway/internal/datadir"
	"muster/gateway/internal/session/recording"
	"muster/store"
)

// secretRecordings is the secret that seals the keys of all recordings. It is in the database, so that it is in every backup, and follows
// muster key rotate --master.
const secretRecordings = "recordings"

// recordingSettings say which sessions are recorded, and what is kept of that.
type recordingSettings struct {
	shells bool
	keep   days // 0: for ever
	quota  size // of all; 0: none
	most   size // of one
}

// flags adds the flags of recordings.
func (r *recordingSettings) flags(f *flag.FlagSet) {
	*r = recordingSettings{shells: true, keep: days(90 * 24 * time.Hour), quota: 20 << 30, most: 256 << 20}
	f.Var((*yesNo)(&r.shells), "record-shells", "record what the terminals of shells show; =false: do not")
	f.Var(&r.keep, "recordings-keep", "how long a recording is kept, a `DURATION` such as 90d; 0: for ever")
	f.Var(&r.quota, "recordings-quota", "what all recordings may take on disk, a `SIZE` such as 20GiB: the oldest go first; 0: no limit")
	f.Var(&r.most, "recording-max", "the largest recording, a `SIZE`: a session that would need more ends")
}

func (r *recordingSettings) check(named func(string) string) error {
	switch {
	case r.keep < 0 || r.keep > 0 && time.Duration(r.keep) < time.Hour:
		return fmt.Errorf("%s %s: write 0 (for ever), or at least 1h", named("recordings-keep"), &r.keep)
	case r.most < recording.Least:
		return fmt.Errorf("%s %s: write at least 64KiB", named("recording-max"), &r.most)
	case r.quota > 0 && r.quota < r.most:
		return errors.New(named("recordings-quota") + " is less than the " + r.most.String() + " of one recording (--recording-max)")
	}
	return nil
}

// openRecordings opens the folder of recordings.
func (g *gateway) openRecordings(ctx context.Context) error {
	fresh := make([]byte, 32)
	rand.Read(fresh)
	key, err := g.store.SecretOnce(ctx, secretRecordings, fresh)
	if err != nil {
		return err
	}
	r := g.settings.recordings
	g.recordings, err = recording.Open(recording.Config{
		Folder: filepath.Join(g.settings.data, datadir.Recordings), Key: key, Most: int64(r.most), Keep: time.Duration(r.keep),
		Quota: int64(r.quota), Dropped: g.recordingsDropped, Logger: g.log,
	})
	return err
}

// recordingsDropped records that recordings were deleted.
func (g *gateway) recordingsDropped(ctx context.Context, why string, count int, bytes int64) error {
	detail := map[string]string{"deleted": strconv.Itoa(count), "bytes": strconv.FormatInt(bytes, 10), "why": why}
	return g.store.AddEvents(ctx, store.Event{At: time.Now(), Kind: "recordings.pruned", Actor: "gateway", Outcome: store.OutcomeOK,
		Security: true, Detail: detail})
}
