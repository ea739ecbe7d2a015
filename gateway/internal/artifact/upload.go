package artifact

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"time"

	"muster/store/registry"
)

// Bounds of uploads.
const (
	uploadLife = 6 * time.Hour // after its last byte
	mostOpen   = 1000          // at once
	pieceSize  = 128 << 10     // bytes that are read, written and hashed at a time
)

// upload is one that is under way. Who has set busy alone may use its file and its hash. The lock r.mu guards the other fields.
type upload struct {
	id      string
	size    int64
	touched time.Time
	busy    bool

	algorithm string    // of sum
	sum       hash.Hash // of the first summed bytes of the file; nil: of none
	summed    int64
}

// Begin begins an upload and returns its id, which is good for a path of a URL. An upload ends by itself some hours after its last byte.
func (r *Registry) Begin(_ context.Context, repository string) (id string, err error) {
	u, file, err := r.begin(repository, SHA256)
	if err != nil {
		return "", err
	}
	r.leave(u)
	return u.id, file.Close()
}

// begin makes an upload that the caller uses, and must leave or end.
func (r *Registry) begin(repository, algorithm string) (*upload, *os.File, error) {
	if err := CheckName(repository); err != nil {
		return nil, nil, err
	}
	u := &upload{id: uploadID(repository), touched: r.now(), busy: true, algorithm: algorithm, sum: newHash(algorithm)}
	if err := r.admit(u); err != nil {
		return nil, nil, err
	}
	file, err := r.folder.create(u.id)
	if err != nil {
		return nil, nil, errors.Join(err, r.end(u))
	}
	return u, file, nil
}

func (r *Registry) admit(u *upload) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.uploads) >= mostOpen {
		return &Error{Code: CodeTooManyRequests, Message: "too many uploads are under way: finish or cancel some, or try again later"}
	}
	if err := r.checkQuota(0); err != nil {
		return err
	}
	r.uploads[u.id] = u
	return nil
}

// take gives an upload to one caller alone.
func (r *Registry) take(repository, id string) (*upload, error) {
	if err := CheckName(repository); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.uploads[id]
	if u == nil || !strings.HasSuffix(id, uploadMark(repository)) {
		return nil, unknownUpload()
	}
	if u.busy {
		return nil, &Error{Code: CodeTooManyRequests, Message: "another request writes to this upload: wait until it has ended"}
	}
	u.busy = true
	return u, nil
}

func unknownUpload() error {
	return &Error{Code: CodeBlobUploadUnknown, Message: "there is no such upload: it has ended; begin another one"}
}

// leave gives an upload free.
func (r *Registry) leave(u *upload) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	u.busy = false
	u.touched = now
}

// end removes an upload that the caller uses, with its bytes. If the file cannot be removed, the next start finds it again.
func (r *Registry) end(u *upload) error {
	err := r.folder.remove(r.folder.upload(u.id))
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.uploads, u.id)
	r.uploading -= u.size
	return err
}

// Append adds bytes to an upload and returns how many it has now. offset is where the bytes belong; -1: at the end. The error is
// RANGE_INVALID if that is not the end: the upload stays as it was. If the reader fails, the bytes before that stay. The error is
// TOOMANYREQUESTS if another request adds bytes to the upload now.
func (r *Registry) Append(ctx context.Context, repository, id string, offset int64, content io.Reader) (size int64, err error) {
	u, err := r.take(repository, id)
	if err != nil {
		return 0, err
	}
	file, err := r.grow(ctx, u, offset, content)
	if file != nil {
		at := r.now()
		err = errors.Join(err, os.Chtimes(file.Name(), at, at), file.Close()) // a restarted gateway reads its age there
	}
	size = u.size
	r.leave(u)
	return size, err
}

// grow opens the file of an upload and adds bytes to it. The caller closes the file, where there is one.
func (r *Registry) grow(ctx context.Context, u *upload, offset int64, content io.Reader) (*os.File, error) {
	if offset != -1 && offset != u.size {
		return nil, &Error{Code: CodeRangeInvalid, Message: fmt.Sprintf("the upload has %d bytes: go on there", u.size),
			Detail: map[string]int64{"offset": u.size}}
	}
	file, err := os.OpenFile(r.folder.upload(u.id), os.O_RDWR, 0)
	if err != nil || content == nil {
		return file, err
	}
	return file, r.add(ctx, u, file, content)
}

// add writes what a reader gives to the end of an upload. If it cannot write that, it takes back what this reader gave.
func (r *Registry) add(ctx context.Context, u *upload, file *os.File, content io.Reader) error {
	start := u.size
	piece := make([]byte, pieceSize)
	for {
		n, errRead := content.Read(piece)
		if err := r.write(u, file, piece[:n]); err != nil {
			return errors.Join(err, r.cut(u, file, start))
		}
		switch {
		case errors.Is(errRead, io.EOF):
			return nil
		case errRead != nil:
			return fmt.Errorf("%w (%w)", &Error{Code: CodeBlobUploadInvalid,
				Message: "the bytes ended early: ask how far the upload has come, and go on there"}, errRead)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func (r *Registry) write(u *upload, file *os.File, piece []byte) error {
	if len(piece) == 0 {
		return nil
	}
	at := u.size
	if err := r.reserve(u, int64(len(piece))); err != nil {
		return err
	}
	if err := r.folder.write(file, piece, at); err != nil {
		return err
	}
	if u.sum != nil && u.summed == at {
		u.sum.Write(piece)
		u.summed += int64(len(piece))
	}
	return nil
}

// cut takes an upload back to an earlier size.
func (r *Registry) cut(u *upload, file *os.File, size int64) error {
	r.giveBack(u, u.size-size)
	if u.summed > size {
		u.sum = nil
	}
	return file.Truncate(size)
}

// digest hashes the file of an upload. What was hashed as it came is not read again.
func (u *upload) digest(file *os.File, algorithm string) (Digest, error) {
	if u.sum == nil || u.algorithm != algorithm {
		u.algorithm = algorithm
		u.sum = newHash(algorithm)
		u.summed = 0
	}
	n, err := io.Copy(u.sum, io.NewSectionReader(file, u.summed, u.size-u.summed))
	u.summed += n
	return sumOf(algorithm, u.sum), err
}

// Finish adds the last bytes, as Append does, and makes a blob of the upload. content may be nil. The error is DIGEST_INVALID if the bytes
// do not have that digest: then the upload is gone.
func (r *Registry) Finish(ctx context.Context, repository, id string, offset int64, digest string, content io.Reader) error {
	d, err := ParseDigest(digest)
	if err != nil {
		return err
	}
	u, err := r.take(repository, id)
	if err != nil {
		return err
	}
	file, err := r.grow(ctx, u, offset, content)
	if err != nil {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		r.leave(u)
		return err
	}
	return r.seal(ctx, repository, u, file, d)
}

// Put stores one whole blob. size is what the client announced; -1: it announced nothing. The error is DIGEST_INVALID if the bytes have
// another digest.
func (r *Registry) Put(ctx context.Context, repository, digest string, size int64, content io.Reader) error {
	d, err := ParseDigest(digest)
	if err != nil {
		return err
	}
	u, file, err := r.begin(repository, d.Algorithm)
	if err != nil {
		return err
	}
	err = r.fits(u, size)
	if err == nil {
		err = r.add(ctx, u, file, content)
	}
	if err == nil && size >= 0 && size != u.size {
		err = &Error{Code: CodeBlobUploadInvalid, Message: fmt.Sprintf("%d bytes were announced, and %d came: push again", size, u.size)}
	}
	if err != nil {
		return errors.Join(err, file.Close(), r.end(u))
	}
	return r.seal(ctx, repository, u, file, d)
}

// seal makes a blob of an upload that has all its bytes. The upload is over, also if that fails, and the file is closed.
func (r *Registry) seal(ctx context.Context, repository string, u *upload, file *os.File, d Digest) error {
	got, err := u.digest(file, d.Algorithm)
	if err == nil && got != d {
		err = refuse(CodeDigestInvalid, "the bytes have the digest "+got.String(), d.String())
	}
	if err == nil {
		err = r.copy(ctx, Info{d.String(), u.size}, file)
	}
	if err == nil {
		err = r.publish(ctx, repository, u, file, d)
	}
	if err != nil {
		return errors.Join(err, file.Close(), r.end(u))
	}
	return file.Close()
}

// copy has another gateway keep a copy, where there is one.
func (r *Registry) copy(ctx context.Context, blob Info, file io.ReaderAt) error {
	if r.config.Copy == nil {
		return nil
	}
	err := r.config.Copy(ctx, blob, io.NewSectionReader(file, 0, blob.Size))
	if err != nil {
		r.log.Warn("a push was refused, because no other gateway could keep a copy", "digest", blob.Digest, "error", err)
		return fmt.Errorf("%w (%w)", &Error{Code: CodeUnavailable,
			Message: "no gateway that stands by could keep a copy, so the push is not safe: see the gateway's log, and push again"}, err)
	}
	return nil
}

// publish renames and records under the lock of the digest, so that nobody removes the file in between.
func (r *Registry) publish(ctx context.Context, repository string, u *upload, file *os.File, d Digest) error {
	lock := r.lock(d)
	lock.Lock()
	defer lock.Unlock()
	err := r.folder.publish(file, u.id, Info{d.String(), u.size})
	if err == nil {
		err = r.folder.disk.At("record")
	}
	if err == nil {
		blob := registry.Blob{Digest: d.String(), Size: u.size}
		err = r.records.AddBlob(context.WithoutCancel(ctx), repository, blob, r.now())
	}
	if err != nil {
		_, left := r.dropOrphan(ctx, d)
		return errors.Join(diskError(err), left)
	}
	r.mu.Lock()
	delete(r.uploads, u.id)
	r.mu.Unlock()
	r.recount(ctx, u.size)
	return nil
}

// Cancel ends an upload and removes its bytes. The error is BLOB_UPLOAD_UNKNOWN if there is no such upload.
func (r *Registry) Cancel(_ context.Context, repository, id string) error {
	u, err := r.take(repository, id)
	if err != nil {
		return err
	}
	return r.end(u)
}

// Progress returns how many bytes an upload has. The error is BLOB_UPLOAD_UNKNOWN if it was never begun, or has ended.
func (r *Registry) Progress(_ context.Context, repository, id string) (int64, error) {
	if err := CheckName(repository); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.uploads[id]
	if u == nil || !strings.HasSuffix(id, uploadMark(repository)) {
		return 0, unknownUpload()
	}
	return u.size, nil
}
