package artifact

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"muster/agent/disk"
)

// Names below a registry's folder.
const (
	blobsFolder   = "blobs"
	uploadsFolder = "uploads"
	damagedEnd    = ".damaged" // behind the name of a blob whose bytes are others
)

// folder is the registry on disk. Every path in it is made of digits that were checked, never of what a client named.
type folder struct {
	path string
	disk disk.Steps // nil: nobody is told; for tests
}

func (f folder) algorithm(name string) string { return filepath.Join(f.path, blobsFolder, name) }

func (f folder) blob(d Digest) string { return filepath.Join(f.algorithm(d.Algorithm), d.Hex) }

func (f folder) uploads() string { return filepath.Join(f.path, uploadsFolder) }

func (f folder) upload(id string) string { return filepath.Join(f.uploads(), id) }

// make makes the folders, and shuts them to other users. Their names are on the disk before anything comes into them.
func (f folder) make() error {
	for _, path := range []string{f.path, filepath.Join(f.path, blobsFolder), f.algorithm(SHA256), f.algorithm(SHA512), f.uploads()} {
		if err := errors.Join(f.disk.MakeFolders(path, 0o700), os.Chmod(path, 0o700)); err != nil {
			return diskError(err)
		}
	}
	return nil
}

// uploadID is a random number, and a mark of the repository: so an upload belongs to one repository, and nobody need remember which.
func uploadID(repository string) string {
	random := make([]byte, 16)
	rand.Read(random) // never fails
	return hex.EncodeToString(random) + uploadMark(repository)
}

func uploadMark(repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return hex.EncodeToString(sum[:16])
}

func isUpload(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// create makes the file of a new upload.
func (f folder) create(id string) (*os.File, error) {
	if err := f.disk.At("create"); err != nil {
		return nil, diskError(err)
	}
	file, err := os.OpenFile(f.upload(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return file, diskError(err)
}

// write writes bytes at a place. What it could not write whole, the caller cuts off.
func (f folder) write(file *os.File, content []byte, at int64) error {
	if err := f.disk.At("write"); err != nil {
		return diskError(err)
	}
	_, err := file.WriteAt(content, at)
	return diskError(err)
}

// publish makes a whole, verified upload a blob. The bytes are on the disk before the name, and the name before publish returns. If
// an earlier failure left bytes beyond the size, they go.
func (f folder) publish(file *os.File, id string, blob Info) error {
	d, err := ParseDigest(blob.Digest)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(blob.Size), f.disk.Sync("the blob", file)); err != nil {
		return diskError(err)
	}
	if err := f.disk.At("rename"); err != nil {
		return diskError(err)
	}
	if err := os.Rename(f.upload(id), f.blob(d)); err != nil {
		return diskError(err)
	}
	_ = os.Remove(f.blob(d) + damagedEnd) // most have none
	return diskError(f.disk.SyncFolder("the folder", f.algorithm(d.Algorithm)))
}

// open opens a blob for reading. BLOB_UNKNOWN if it is not there, or has another size than it should have.
func (f folder) open(blob Info) (*os.File, error) {
	d, err := ParseDigest(blob.Digest)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(f.blob(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknownBlob(blob.Digest)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != blob.Size {
		err = unknownBlob(blob.Digest)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// has tells whether a blob is there and has its size.
func (f folder) has(blob Info) bool {
	file, err := f.open(blob)
	if err != nil {
		return false
	}
	return file.Close() == nil
}

// setAside takes the name from a file of a blob, if it has it still.
func (f folder) setAside(d Digest, file *os.File) (to string, err error) {
	named, err := os.Stat(f.blob(d))
	if err != nil {
		return "", err
	}
	open, err := file.Stat()
	if err != nil || !os.SameFile(named, open) {
		return "", err
	}
	if err := f.disk.At("set aside"); err != nil {
		return "", err
	}
	to = f.blob(d) + damagedEnd
	if err := os.Rename(f.blob(d), to); err != nil {
		return "", err
	}
	return to, f.disk.SyncFolder("the folder", f.algorithm(d.Algorithm))
}

// remove removes a file. One that is not there is no error.
func (f folder) remove(path string) error {
	if err := f.disk.At("remove"); err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Import writes a blob into the folder of a registry that is not open: for a restore, or for a gateway that stands by. A blob that is there
// already is replaced.
func Import(steps disk.Steps, path string, blob Info, content io.Reader) error {
	f := folder{path: path, disk: steps}
	if err := f.make(); err != nil {
		return err
	}
	return f.take(blob, content)
}

// File opens a blob in the folder of a registry that is not open. The error is BLOB_UNKNOWN if the blob is not there, or does not have its
// size.
func File(path string, blob Info) (*os.File, error) { return folder{path: path}.open(blob) }

// take writes a blob, and makes sure of its bytes.
func (f folder) take(blob Info, content io.Reader) (err error) {
	d, err := ParseDigest(blob.Digest)
	if err != nil {
		return err
	}
	id := uploadID("")
	file, err := f.create(id)
	if err != nil {
		return err
	}
	defer func() {
		closed := file.Close()
		if err == nil {
			err = closed
		} else {
			err = errors.Join(err, f.remove(f.upload(id)))
		}
	}()
	sum := newHash(d.Algorithm)
	size, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(content, blob.Size+1))
	if err != nil {
		return diskError(err)
	}
	if size != blob.Size || sumOf(d.Algorithm, sum) != d {
		return refuse(CodeDigestInvalid, "the bytes are not those of the blob", blob.Digest)
	}
	return f.publish(file, id, blob)
}

// diskError makes clear what to do about a full disk. It leaves other errors as they are.
func diskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w (%w)", &Error{Code: CodeUnavailable,
			Message: "the gateway's disk is full: free space in its data directory, then push again"}, err)
	}
	return err
}

func unknownBlob(digest string) error { return missing(CodeBlobUnknown, "blob", digest) }
