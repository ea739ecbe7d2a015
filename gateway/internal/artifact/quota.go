package artifact

import (
	"context"
	"fmt"
)

// check refuses bytes that would be over a limit: of one blob, or of the registry. The lock r.mu must be held.
func (r *Registry) check(u *upload, more int64) error {
	if most := r.config.MaxBlob; most > 0 && u.size+more > most {
		return &Error{Code: CodeSizeInvalid,
			Message: fmt.Sprintf("a blob may have %d bytes here: raise %s, or push a smaller one", most, SettingMaxBlob)}
	}
	return r.checkQuota(more)
}

func (r *Registry) checkQuota(more int64) error {
	if most := r.config.Quota; most > 0 && r.stored+r.uploading+more > most {
		return &Error{Code: CodeDenied, Message: fmt.Sprintf("the registry may keep %d bytes, uploads that are under way included: "+
			"delete what nobody needs, or raise %s", most, SettingQuota)}
	}
	return nil
}

// fits refuses an upload early, when its announced size is over a limit.
func (r *Registry) fits(u *upload, size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check(u, max(size, 0))
}

// reserve counts bytes that are about to be written to an upload.
func (r *Registry) reserve(u *upload, more int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.check(u, more); err != nil {
		return err
	}
	u.size += more
	r.uploading += more
	return nil
}

// keepRoom counts a manifest as an upload, until a recount or giveRoom.
func (r *Registry) keepRoom(size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.checkQuota(size); err != nil {
		return err
	}
	r.uploading += size
	return nil
}

// giveRoom uncounts a manifest that was not stored.
func (r *Registry) giveRoom(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uploading -= size
}

// giveBack uncounts bytes of an upload that were cut off.
func (r *Registry) giveBack(u *upload, less int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.size -= less
	r.uploading -= less
}

// recount reads how much is stored, after a change of it. ended are the bytes of an upload that became a blob, or of a manifest: they
// count once all the time. Recounts come one after the other, so that no older sum replaces a newer one.
func (r *Registry) recount(ctx context.Context, ended int64) {
	r.counting.Lock()
	defer r.counting.Unlock()
	stored, err := r.records.Bytes(context.WithoutCancel(ctx))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uploading -= ended
	r.stored += ended
	if err != nil {
		r.log.Error("the registry does not know how much it keeps: it counts again after the next change", "error", err)
		return
	}
	r.stored = stored
}
