// Package recording keeps what the terminals of sessions showed: as asciicast v2, sealed, in one file for each session. It never has what a
// person typed, except what the terminal showed of it.
//
// If a recording cannot be written, its tape says so at the next output, and the session is to end: nobody works unseen because a disk
// is full. A gateway that is killed loses the last second. What is there before is read all the same.
package recording

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/agent/wire"
	"muster/gateway/internal/session/asciicast"
)

// Limits that are no setting. What is there of one session is at least Least bytes.
const (
	Least      = 64 << 10 // of what one recording may take
	flushAfter = time.Second
	gather     = 32 << 10 // bytes of lines that are written before that
	reserve    = 8 << 10  // bytes that are kept for the end of a recording
	suffix     = ".cast"
)

// Config says where recordings lie, and how much of them. It does not change.
type Config struct {
	Folder string
	Key    []byte        // of 32 bytes: it seals the keys of all recordings
	Most   int64         // bytes of one recording
	Keep   time.Duration // since the end of a recording; 0: for ever
	Quota  int64         // bytes of all; 0: no limit. The oldest go
	// Dropped is called after recordings were deleted, with the reason. Nil: nobody is told.
	Dropped func(ctx context.Context, why string, count int, bytes int64) error
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger
	Disk    disk.Steps // nil: nobody is told; for tests
}

// Store has all recordings of a gateway. It is safe for concurrent use.
type Store struct {
	Config
	seal cipher.AEAD

	mu    sync.Mutex // guards all below
	live  map[string]*Tape
	used  int64            // bytes of all recordings, with those that the live ones have taken
	known bool             // used was counted
	gone  map[string]tally // recordings that were deleted, and that nobody was told of yet, by reason
	news  chan struct{}    // there are such
}

// Open makes the folder if it is not there.
func Open(c Config) (*Store, error) {
	if len(c.Key) != keySize {
		return nil, fmt.Errorf("the key of the recordings has %d bytes, want %d", len(c.Key), keySize)
	}
	block, err := aes.NewCipher(c.Key)
	if err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Store{Config: c, live: map[string]*Tape{}, gone: map[string]tally{}, news: make(chan struct{}, 1)}
	if s.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	if err := c.Disk.MakeFolders(c.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("the folder of recordings: %w", err)
	}
	return s, nil
}

// Meta is what is known of a session when its recording begins.
type Meta struct {
	ID      string // of the session
	Node    string
	User    string // on the node; empty: the agent's own
	Command []string
	Term    string
	Rows    int
	Columns int
	At      time.Time
}

// Begin makes the file of a session. No file of that name may exist yet.
func (s *Store) Begin(m Meta) (*Tape, error) {
	path, err := s.path(m.ID)
	if err != nil {
		return nil, err
	}
	head, chunks, err := newHead(s.seal, m.ID)
	if err != nil {
		return nil, err
	}
	t := &Tape{store: s, id: m.ID, most: max(s.Most, Least), chunks: chunks, lines: asciicast.NewEncoder(m.At)}
	t.pending = t.lines.Header(m.header())
	if t.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, unwritten(err)
	}
	s.remember(t)
	err = s.grow(t, int64(len(head))+sealedSize(len(t.pending))+reserve)
	if err == nil {
		err = unwritten(errors.Join(t.begin(head), s.Disk.SyncFolder("the folder of recordings", s.Folder)))
	}
	if err != nil {
		err = errors.Join(err, t.file.Close(), os.Remove(path))
		s.forget(t, 0)
		return nil, err
	}
	return t, nil
}

// header says of a terminal without a size what wire.ShellParams says of it.
func (m Meta) header() asciicast.Header {
	title := m.Node
	if m.User != "" {
		title = m.User + "@" + m.Node
	}
	h := asciicast.Header{Width: cmp.Or(m.Columns, 80), Height: cmp.Or(m.Rows, 24), Title: title,
		Command: strings.Join(m.Command, " ")}
	if m.Term != "" {
		h.Env = map[string]string{"TERM": m.Term}
	}
	return h
}

func (s *Store) path(id string) (string, error) {
	if err := wire.CheckSessionID(id); err != nil {
		return "", err
	}
	return filepath.Join(s.Folder, id+suffix), nil
}

func (s *Store) remember(t *Tape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[t.id] = t
}

// forget ends that a recording is a live one. left is what its file has.
func (s *Store) forget(t *Tape, left int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, t.id)
	s.used += left - t.taken
}

// tape is the one of a session that goes on; nil: there is none.
func (s *Store) tape(id string) *Tape {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}
