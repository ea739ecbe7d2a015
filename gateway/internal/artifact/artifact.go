// Package artifact is the registry below HTTP: blobs on disk, manifests and tags in the database, uploads, references between
// manifests, limits, and the removal of what nobody needs.
//
// Blobs are files that are named by their digest, and all repositories share them. A repository sees only the blobs that were pushed
// or mounted to it. Below Config.Folder, every folder has mode 0700 and every file 0600:
//
//	blobs/sha256/<64 hex>    one whole, verified blob
//	blobs/sha512/<128 hex>   the same, for what was pushed by such a digest
//	uploads/<64 hex>         one upload that is under way: its size is how far it has come
//
// A file comes into blobs whole, in one step, before the database knows of it. So a crash leaves at most a file that nobody knows, and
// the next round of Run removes that. Nothing else is kept on disk: a backup is the database, and the blobs that Each names.
package artifact

import (
	"context"
	"io"
	"log/slog"
	"time"

	"muster/store"
)

// Names of the settings that bound the registry, for messages.
const (
	SettingQuota   = "--registry-quota"
	SettingMaxBlob = "--registry-max-blob"
)

// MaxManifest is how many bytes a manifest may have: 4 MiB, which is more than the 4 MB that every registry must take.
const MaxManifest = 4 << 20

// Config says what a Registry works with.
type Config struct {
	Folder  string // is made where it is not there; see the package's comment
	Records store.Records
	MaxBlob int64            // bytes of one blob; 0: no limit
	Quota   int64            // bytes of all blobs, uploads and manifests; 0: no limit
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: nothing is logged
}

// Registry is an open registry. Its methods may be called from any number of goroutines.
//
// Errors that a caller can do something about are an *Error. CheckName is applied to every repository, ParseDigest to every digest.
type Registry struct {
	config Config
}

// Open opens the registry, and makes its folders where they are not there.
func Open(ctx context.Context, c Config) (*Registry, error) { return &Registry{config: c}, nil }

// Run removes every hour, and soon after something was deleted, what nobody needs: uploads that ended, what no manifest names, blobs
// that no repository has. It returns when ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Usage tells how many bytes the registry keeps, uploads that are under way included, and how many it may keep (0: no limit).
func (r *Registry) Usage(ctx context.Context) (bytes, quota int64, err error) {
	return 0, 0, errUnsupported()
}

// Info names one blob.
type Info struct {
	Digest string
	Size   int64
}

// Blob is a blob that is open for reading. It reads from an *os.File, so that http.ServeContent can hand the file to the kernel.
type Blob struct {
	Info
	io.ReadSeekCloser
}

// Blob opens a blob of a repository. BLOB_UNKNOWN where the repository does not have it.
func (r *Registry) Blob(ctx context.Context, repository, digest string) (Blob, error) {
	return Blob{}, errUnsupported()
}

// Stat gives the size of a blob of a repository. BLOB_UNKNOWN where the repository does not have it. A blob that was asked for stays
// for an hour, so that a client need not push it again before its manifest.
func (r *Registry) Stat(ctx context.Context, repository, digest string) (int64, error) {
	return 0, errUnsupported()
}

// DeleteBlob takes a blob from a repository. DENIED where a held manifest needs it.
func (r *Registry) DeleteBlob(ctx context.Context, repository, digest string, by store.Actor) error {
	return errUnsupported()
}

// Mount gives a repository a blob that another one has; from "": that any repository has. It returns false where there is no such blob:
// then the client pushes it.
func (r *Registry) Mount(ctx context.Context, repository, digest, from string) (bool, error) {
	return false, errUnsupported()
}

// Put stores one whole blob. Its size is what the client announced; -1: it did not. DIGEST_INVALID where the bytes are others.
func (r *Registry) Put(ctx context.Context, repository, digest string, size int64, content io.Reader) error {
	return errUnsupported()
}

// Begin begins an upload and returns its id, which is good for a path of a URL. An upload ends by itself some hours after its last byte.
func (r *Registry) Begin(ctx context.Context, repository string) (id string, err error) {
	return "", errUnsupported()
}

// Append adds bytes to an upload and returns how many it has now. The offset is where the bytes belong; -1: at the end. RANGE_INVALID
// where that is not the end: the upload goes on as it was. What came before the reader failed stays. TOOMANYREQUESTS where another
// request adds bytes to it now.
func (r *Registry) Append(ctx context.Context, repository, id string, offset int64, content io.Reader) (size int64, err error) {
	return 0, errUnsupported()
}

// Finish adds the last bytes, as Append does, and makes a blob of the upload. content may be nil. DIGEST_INVALID where the bytes do not
// have that digest: then the upload is gone.
func (r *Registry) Finish(ctx context.Context, repository, id string, offset int64, digest string, content io.Reader) error {
	return errUnsupported()
}

// Cancel ends an upload and removes its bytes. BLOB_UPLOAD_UNKNOWN where there is none.
func (r *Registry) Cancel(ctx context.Context, repository, id string) error { return errUnsupported() }

// Progress tells how many bytes an upload has. BLOB_UPLOAD_UNKNOWN where there is none: it was never begun, or has ended.
func (r *Registry) Progress(ctx context.Context, repository, id string) (int64, error) {
	return 0, errUnsupported()
}

// Each gives every blob, whichever repository has it, in the order of their digests, until the function returns an error.
func (r *Registry) Each(ctx context.Context, do func(Info) error) error { return errUnsupported() }

// Keep removes no blob from disk while a function runs. A backup first copies the database and then what Each gives, in one Keep: so it
// has every blob that its database knows.
func (r *Registry) Keep(do func() error) error { return do() }

// Raw opens a blob by its digest, whichever repository has it. It is for backups.
func (r *Registry) Raw(digest string) (Blob, error) { return Blob{}, errUnsupported() }

// Import writes a blob into the folder of a registry that is not open. It is for restores: the database knows the blob already.
func Import(folder string, blob Info, content io.Reader) error { return errUnsupported() }

func errUnsupported() error {
	return &Error{Code: "UNSUPPORTED", Message: "this is not built yet"}
}
