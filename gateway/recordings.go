package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"muster/gateway/internal/session/recording"
)

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
