package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

// RecordFile is a file in the state directory.
const RecordFile = service.UpdateFile

// Bounds of a record.
const (
	maxRecord   = 1 << 20 // bytes
	maxFloors   = 64
	maxFailures = 32
	maxReplaced = 32
)

// Record is the content of update.json in the state directory. The previous and the next version read it too, so a decoder takes what it
// knows and leaves the rest. Times of a trial come from a clock that nobody can set: see Trial.
type Record struct {
	Node    string           `json:"node,omitempty"`    // whose floors these are: another enrolment begins anew
	Channel string           `json:"channel,omitempty"` // as the gateway has provably said
	Floors  map[string]int64 `json:"floors,omitempty"`  // by channel: the highest number that this node has obeyed
	Ends    *time.Time       `json:"ends,omitempty"`    // of the newest pointer of Channel that was believed; nil: none was seen
	Last    Last             `json:"last,omitzero"`     // the last update
	Failed  []Failure        `json:"failed,omitempty"`  // what did not prove itself here, the oldest first
	// Kept is the last update that was committed. The build From stays until the next commit, for the case that the build To does not stay
	// up: Trial counts the starts of To since a heartbeat was accepted.
	Kept Last `json:"kept,omitzero"`
	// Replaced are the builds that updates have replaced, the newest last. A container's image may still have one of them.
	Replaced []string `json:"replaced,omitempty"`
}

// Last is an update under way, or the last one. Phase and Code are wire.Update's.
type Last struct {
	Channel string `json:"channel,omitempty"`
	Release string `json:"release,omitempty"` // digest of the release
	About   int64  `json:"about,omitempty"`   // sequence number of the pointer that named it
	Version string `json:"version,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Code    string `json:"code,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Log     string `json:"log,omitempty"`  // the last lines of a version that the node has gone back from
	Told    bool   `json:"told,omitempty"` // a heartbeat with this end was accepted

	From  string `json:"from,omitempty"` // builds in the layout, in hex: the one before
	To    string `json:"to,omitempty"`   // and the one on trial
	Trial *Trial `json:"trial,omitempty"`
}

// Failure is a release that failed on this node. It is tried again only for a higher number.
type Failure struct {
	Channel  string `json:"channel"`
	Digest   string `json:"digest"` // of the release
	Sequence int64  `json:"seq"`
}

// files are the state directory as this package sees it.
type files struct {
	service.Layout
	program string // the file of the program of this process
}

func newFiles(base string) files {
	if whole, err := filepath.Abs(base); err == nil {
		base = whole
	}
	return files{Layout: service.Layout{Base: base}, program: service.OwnProgram}
}

func (f files) recordPath() string { return filepath.Join(f.Base, RecordFile) }

// load reads the record. An error means that there is one that cannot be read. Then it has nothing but the floors of the second copy.
func (f files) load() (Record, error) {
	var r Record
	raw, err := disk.ReadFile(f.recordPath(), maxRecord)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		err = nil
	} else if err == nil {
		r, err = decode(RecordFile, raw)
	}
	if kept, damaged := f.loadFloors(); damaged == nil {
		r.highest(kept, missing || err != nil)
	}
	return r, err
}

// save puts the record on the disk. When it returns without an error, a loss of power does not lose it.
func (f files) save(r Record) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err = f.saveFloors(r); err == nil {
		err = f.Steps.Replace(f.recordPath(), append(raw, '\n'), 0o600)
	}
	return disk.Advise(err)
}

// decode reads a record from a file of this name, and leaves out what could do harm. What a later version has added is not looked at.
func decode(name string, raw []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return Record{}, fmt.Errorf("%s is damaged: %w", name, err)
	}
	for _, build := range []*string{&r.Last.From, &r.Last.To, &r.Kept.From, &r.Kept.To} {
		if !service.IsDigest(*build) { // it becomes a part of a path
			*build = ""
		}
	}
	maps.DeleteFunc(r.Floors, func(channel string, number int64) bool { return number < 0 || len(channel) > wire.MaxChannel })
	r.Replaced = r.Replaced[max(0, len(r.Replaced)-maxReplaced):]
	r.Last.Log = last(r.Last.Log, wire.MaxUpdateLog)
	for _, t := range []*Trial{r.Last.Trial, r.Kept.Trial} {
		if t != nil {
			t.mend()
		}
	}
	return r, nil
}

// last is the end of a text, of at most so many bytes, from the beginning of a line.
func last(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	for i := range len(text) {
		if text[i] == '\n' {
			return text[i+1:]
		}
	}
	return ""
}

// floor is the lowest number that this node obeys on a channel.
func (r *Record) floor(channel string) int64 { return r.Floors[channel] }

// Said returns the last update in the form that a heartbeat has, without its log.
func (r *Record) Said() wire.Update {
	l := r.Last
	return wire.Update{
		Channel: r.Channel, Sequence: r.floor(r.Channel), Release: l.Release, About: l.About, Phase: l.Phase, Code: l.Code, Detail: l.Detail,
	}
}

// raise takes a higher floor over. It reports whether anything has changed.
func (r *Record) raise(channel string, number int64) bool {
	if channel == "" || len(channel) > wire.MaxChannel || number <= r.Floors[channel] {
		return false
	}
	if _, known := r.Floors[channel]; !known && len(r.Floors) >= maxFloors {
		return false // a gateway that names channel after channel must not make this node forget what it has obeyed
	}
	floors := maps.Clone(r.Floors)
	if floors == nil {
		floors = map[string]int64{}
	}
	floors[channel] = number
	r.Floors = floors
	return true
}

// fail remembers that a release has failed.
func (r *Record) fail(channel, digest string, number int64) {
	var failed []Failure
	for _, f := range r.Failed {
		if f.Channel != channel || f.Digest != digest {
			failed = append(failed, f)
		}
	}
	failed = append(failed, Failure{Channel: channel, Digest: digest, Sequence: number})
	r.Failed = failed[max(0, len(failed)-maxFailures):]
}

// failedAt is the number under which a release has failed; math.MinInt64: it has not.
func (r *Record) failedAt(channel, digest string) int64 {
	for _, f := range r.Failed {
		if f.Channel == channel && f.Digest == digest {
			return f.Sequence
		}
	}
	return math.MinInt64
}

// end notes the end of the update under way. What a heartbeat has said before does not count for it.
func (r *Record) end(phase, code, detail string) {
	if phase == wire.UpdateCommitted && r.Last.From != "" {
		replaced := slices.DeleteFunc(slices.Clone(r.Replaced), func(build string) bool { return build == r.Last.From })
		r.Replaced = append(replaced, r.Last.From)
		r.Replaced = r.Replaced[max(0, len(r.Replaced)-maxReplaced):]
	}
	r.Last.Phase = phase
	r.Last.Code = code
	r.Last.Detail = wire.Head(plain(detail), wire.MaxUpdateDetail)
	r.Last.Told = false
	r.Last.Trial = nil
	if phase == wire.UpdateCommitted {
		r.Kept = r.Last
	}
}

// stays notes that the version that was committed last is well. It reports whether that is news.
func (r *Record) stays(build string) bool {
	if r.Kept.To != build || r.Kept.Trial == nil {
		return false
	}
	r.Kept.Trial = nil
	return true
}

// plain is a text without bytes that are no text. Each of them would take three bytes in JSON, and the gateway refuses what is too long.
func plain(text string) string { return strings.ToValidUTF8(text, "?") }
