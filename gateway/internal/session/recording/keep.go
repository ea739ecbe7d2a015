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
)

// When Run looks.
const (
	lookFirst = 10 * time.Minute // after the start, by when the clock of a machine that has just booted is right
	lookEvery = 5 * time.Minute
)

// spare is the part of the quota that is made free at once where a recording needs room: to look for the oldest takes a while.
const spare = 64

// Reasons to delete a recording.
const (
	TooOld  = "older than recordings are kept"
	TooMany = "recordings need more room than they may have"
)

// Run deletes recordings that are kept no longer, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
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
		case <-s.news:
			if err := s.tell(ctx); err != nil && ctx.Err() == nil {
				s.Logger.Error("that recordings were deleted is not recorded yet", "error", err)
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

// Prune deletes recordings that are too old, and then the oldest ones until the rest fits the bound. A session that goes on keeps its
// recording. If the clock was set since the last look (steady is false), nothing is deleted because of its age.
func (s *Store) Prune(ctx context.Context, now time.Time, steady bool) error {
	failed := s.prune(now, steady)
	return errors.Join(failed, s.Disk.SyncFolder("the folder of recordings", s.Folder), s.tell(ctx))
}

func (s *Store) prune(now time.Time, steady bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.count()
	if err != nil {
		return err
	}
	old := 0
	for s.Keep > 0 && steady && old < len(all) && now.Sub(all[old].end) > s.Keep {
		old++
	}
	return errors.Join(s.drop(TooOld, all[:old]), s.fit(all[old:], 0))
}

// grow gives a live recording room for a file of so many bytes. If the quota has none left, the oldest that are over make it.
func (s *Store) grow(t *Tape, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	more := max(size-t.taken, 0)
	if s.Quota > 0 && (!s.known || s.used+more > s.Quota) {
		all, err := s.count()
		if err == nil && s.used+more > s.Quota {
			err = s.fit(all, more+s.Quota/spare)
		}
		switch {
		case err != nil:
			return unwritten(err)
		case s.used+more > s.Quota:
			return ErrNoRoom
		}
	}
	s.used += more
	t.taken += more
	return nil
}

// count lists the recordings whose sessions have ended, the oldest first, and counts what all take. The lock is held.
func (s *Store) count() (all []kept, err error) {
	entries, err := os.ReadDir(s.Folder)
	if err != nil {
		return nil, err
	}
	used := int64(0)
	for _, t := range s.live {
		used += t.taken
	}
	for _, entry := range entries {
		id, ours := strings.CutSuffix(entry.Name(), suffix)
		path, err := s.path(id)
		if err != nil || !ours || !entry.Type().IsRegular() || s.live[id] != nil {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		used += info.Size()
		all = append(all, kept{filepath.Clean(path), info.Size(), info.ModTime()})
	}
	s.used = used
	s.known = true
	slices.SortStableFunc(all, func(a, b kept) int { return a.end.Compare(b.end) })
	return all, nil
}

// fit deletes the oldest until so many bytes more are within the quota. The lock is held.
func (s *Store) fit(all []kept, more int64) error {
	many := 0
	for used := s.used + more; s.Quota > 0 && used > s.Quota && many < len(all); many++ {
		used -= all[many].bytes
	}
	return s.drop(TooMany, all[:many])
}

// tally is what was deleted.
type tally struct {
	count int
	bytes int64
}

// drop deletes files. The lock is held.
func (s *Store) drop(why string, files []kept) (failed error) {
	for _, one := range files {
		if err := os.Remove(one.path); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.used -= one.bytes
		was := s.gone[why]
		s.gone[why] = tally{was.count + 1, was.bytes + one.bytes}
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
	return failed
}

// tell tells of what was deleted. If that fails it is told later, with what is deleted then.
func (s *Store) tell(ctx context.Context) error {
	for _, why := range [...]string{TooOld, TooMany} {
		s.mu.Lock()
		what := s.gone[why]
		delete(s.gone, why)
		s.mu.Unlock()
		if what.count == 0 || s.Dropped == nil {
			continue
		}
		if err := s.Dropped(ctx, why, what.count, what.bytes); err != nil {
			s.mu.Lock()
			s.gone[why] = tally{s.gone[why].count + what.count, s.gone[why].bytes + what.bytes}
			s.mu.Unlock()
			return err
		}
	}
	return nil
}
