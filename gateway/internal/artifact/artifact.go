// Package artifact is the registry below HTTP: blobs on disk, manifests and tags in the database, uploads, references between
// manifests, limits, and the removal of what nobody needs.
//
// Blobs are files that are named by their digest, and all repositories share them. A repository sees only the blobs that were pushed
// or mounted to it. Below Config.Folder, every folder has mode 0700 and every file 0600:
//
//	blobs/sha256/<64 hex>    one whole, verified blob
//	blobs/sha512/<128 hex>   the same, for what was pushed by such a digest
//	blobs/*/<hex>.damaged    a blob whose bytes have changed on the disk: it goes when the blob is pushed again
//	uploads/<64 hex>         one upload that is under way: its size is how far it has come
//
// A file comes into blobs whole, in one step, before the database knows of it. So a crash leaves at most a file that nobody knows, and
// the next round of Run removes that. Nothing else is kept on disk: a backup is the database, and the blobs that Each names.
package artifact

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/store"
	"muster/store/registry"
)

// Names of the settings that bound the registry, for messages.
const (
	SettingQuota   = "--registry-quota"
	SettingMaxBlob = "--registry-max-blob"
)

// Config says what a Registry works with.
type Config struct {
	Folder  string // is made if it is not there; see the package's comment
	Records store.Records
	MaxBlob int64            // bytes of one blob; 0: no limit
	Quota   int64            // bytes of all blobs, uploads and manifests; 0: no limit
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: nothing is logged

	// Copy has another gateway keep a copy of a blob, before the push of the blob is acknowledged; nil: no other gateway has this
	// registry's records.
	Copy func(ctx context.Context, blob Info, content *io.SectionReader) error
	// Fetch returns the bytes of a blob from another gateway, if the blob is on record but not on this disk; nil as for Copy.
	Fetch func(ctx context.Context, blob Info) (io.ReadCloser, error)
}

// Registry is an open registry. Its methods may be called from any number of goroutines.
//
// An error that the caller can do something about is an *Error. Each method applies CheckName to the repository and ParseDigest to the
// digest.
type Registry struct {
	config  Config
	folder  folder
	records registry.Records
	now     func() time.Time
	log     *slog.Logger
	wake    chan struct{} // has room for one: something was deleted

	locks    [64]sync.Mutex // by digest: a file and its record change together under one
	fetches  [64]sync.Mutex // by digest: one caller fetches a blob from another gateway, and those that want it too wait
	keeping  sync.RWMutex   // held while files are removed, and for reading while none may be
	counting sync.Mutex

	mu        sync.Mutex
	uploads   map[string]*upload // by id: all that are under way
	stored    int64              // bytes of blobs and manifests
	uploading int64              // bytes of uploads
}

// Open opens the registry, makes its folders if they are missing, and takes up the uploads that were under way. Only one process may have a
// folder open.
func Open(ctx context.Context, c Config) (*Registry, error) { return open(ctx, c, nil) }

func open(ctx context.Context, c Config, steps disk.Steps) (*Registry, error) {
	r := &Registry{config: c, folder: folder{c.Folder, steps}, records: registry.On(c.Records), now: c.Now, log: c.Logger,
		wake: make(chan struct{}, 1), uploads: map[string]*upload{}}
	if r.now == nil {
		r.now = time.Now
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if err := r.folder.make(); err != nil {
		return nil, fmt.Errorf("the registry's folder: %w", err)
	}
	if err := r.resume(); err != nil {
		return nil, fmt.Errorf("the registry's uploads: %w", err)
	}
	stored, err := r.records.Bytes(ctx)
	if err != nil {
		return nil, err
	}
	r.stored = stored
	return r, nil
}

// resume finds the uploads that were under way when the gateway stopped. Their hashes are made anew at their end.
func (r *Registry) resume() error {
	entries, err := os.ReadDir(r.folder.uploads())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if isUpload(entry.Name()) && info.Mode().IsRegular() {
			r.uploads[entry.Name()] = &upload{id: entry.Name(), size: info.Size(), touched: info.ModTime()}
			r.uploading += info.Size()
		}
	}
	return nil
}

// lock is the lock of a digest, and of others.
func (r *Registry) lock(d Digest) *sync.Mutex { return &r.locks[d.number()%len(r.locks)] }
