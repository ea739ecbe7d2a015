package recording

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/agent/disk"
)

// When Run looks. Between two looks recordings can take more than the quota.
const (
	lookFirst = 10 * time.Minute // after the start, by when the clock of a machine that has just booted is right
	lookEvery = 5 * time.Minute
)

// Reasons to delete a recording.
const (
	TooOld  = "older than recordings are kept"
	TooMany = "recordings need more room than they may have"
)

// Run deletes recordings that are kept no longer, until ctx ends.
func (s *Shelf) Run(ctx context.Context) error {
	next := time.NewTimer(lookFirst)
	defer next.Stop()
	last := s.Now()
	for {
		select {
		case <-next.C:
			next.Reset(lookEvery)
			now := s.Now()
			steady := (now.Round(0).Sub(last.Round(0)) - now.Sub(last)).Abs() < time.Minute // the second one is not the clock's
			last = now
			if err := s.Prune(ctx, now, steady); err != nil && ctx.Err() == nil {
				s.Logger.Error("old recordings are not deleted", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// kept is one recording in the folder.
type kept struct {
	path  string
	bytes int64
	end   time.Time // of the last writing
}

// Prune deletes what is too old, and then the oldest while all need too much room. A session that goes on keeps its recording. Where the
// clock was set since the last look (steady is false), nothing goes because of its age.
func (s *Shelf) Prune(ctx context.Context, now time.Time, steady bool) error {
	all, total, err := s.kept()
	if err != nil {
		return err
	}
	var old, many []kept
	for _, one := range all {
		switch {
		case s.Keep > 0 && steady && now.Sub(one.end) > s.Keep:
			old = append(old, one)
			total -= one.bytes
		case s.Quota > 0 && total > s.Quota:
			many = append(many, one)
			total -= one.bytes
		}
	}
	return errors.Join(s.drop(ctx, TooOld, old), s.drop(ctx, TooMany, many))
}

// kept lists the recordings whose sessions have ended, the oldest first. total is the size of all.
func (s *Shelf) kept() (all []kept, total int64, err error) {
	entries, err := os.ReadDir(s.Folder)
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range entries {
		id, ours := strings.CutSuffix(entry.Name(), suffix)
		path, err := s.path(id)
		if err != nil || !ours || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		total += info.Size()
		if s.tape(id) == nil {
			all = append(all, kept{filepath.Clean(path), info.Size(), info.ModTime()})
		}
	}
	slices.SortStableFunc(all, func(a, b kept) int { return a.end.Compare(b.end) })
	return all, total, nil
}

// drop deletes files, and tells of them.
func (s *Shelf) drop(ctx context.Context, why string, files []kept) error {
	if len(files) == 0 {
		return nil
	}
	var failed error
	count := 0
	bytes := int64(0)
	for _, one := range files {
		if err := os.Remove(one.path); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		count++
		bytes += one.bytes
	}
	failed = errors.Join(failed, disk.Sync(s.Folder))
	if count > 0 && s.Dropped != nil {
		failed = errors.Join(failed, s.Dropped(ctx, why, count, bytes))
	}
	return failed
}
