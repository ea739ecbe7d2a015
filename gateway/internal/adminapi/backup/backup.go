// Package backup makes a copy of what a gateway keeps, and sends it.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/backup/archive"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/release"
	"muster/store"
)

// scratch begins the name of the directory for a copy.
const scratch = "backup-"

// Maker makes one backup.
type Maker struct {
	Store     *store.Store
	Fleet     *fleet.Fleet
	Artifacts *artifact.Registry // nil: there is none
	Releases  *release.Service   // nil: nothing needs a blob
	Scratch   string             // directory for a copy of the database, for a moment
	Now       func() time.Time
	Event     func(kind string) store.Event // begins an event about who asks for the backup
	Logger    *slog.Logger
}

// Send sends a consistent copy of the database.
func (m *Maker) Send(ctx context.Context, w http.ResponseWriter) error {
	file, err := m.copied(ctx)
	if err != nil {
		return err
	}
	defer file.Close()
	return m.stream(w, file)
}

// SendAll sends the registry too.
func (m *Maker) SendAll(ctx context.Context, w http.ResponseWriter) error {
	return m.keep(func() error { // every blob that the copy names stays until it was sent
		file, err := m.copied(ctx)
		if err != nil {
			return err
		}
		defer file.Close()
		m.streamAll(ctx, w, file)
		return nil
	})
}

// keep is the registry's, where there is one.
func (m *Maker) keep(do func() error) error {
	if m.Artifacts == nil {
		return do()
	}
	return m.Artifacts.Keep(do)
}

// copied makes a copy of the database. Its file has no name any more.
func (m *Maker) copied(ctx context.Context) (*os.File, error) {
	dir, err := os.MkdirTemp(m.Scratch, scratch)
	if err != nil {
		return nil, fmt.Errorf("a place for the copy: %w", err)
	}
	defer os.RemoveAll(dir) // the open file is enough; removed now, it is gone even if the process dies
	if err := m.Fleet.Flush(ctx); err != nil {
		return nil, err
	}
	if err := m.Store.NoteBackup(ctx, m.Now(), m.Event("backup.made")); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, datadir.Database)
	if err := m.Store.Backup(ctx, path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// stream sends the copy. Its length is sent first, so a client notices a copy that broke off. No error can be answered any more.
func (m *Maker) stream(w http.ResponseWriter, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", api.BackupType)
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	w.Header().Set("Cache-Control", "no-store")
	if _, err := io.Copy(httpserver.Patient(w), file); err != nil {
		m.Logger.Warn("a backup broke off on its way", "error", err)
	}
	return nil
}

// streamAll sends an archive of the copy and of all blobs. The end of the archive tells whether it is whole, so it needs no length. A blob
// that was pushed since the copy is in it too, and does no harm.
func (m *Maker) streamAll(ctx context.Context, w http.ResponseWriter, file *os.File) {
	w.Header().Set("Content-Type", api.BackupArchiveType)
	w.Header().Set("Cache-Control", "no-store")
	out := archive.NewWriter(httpserver.Patient(w), m.Now())
	err := m.archive(ctx, out, file)
	if err == nil {
		err = errors.Join(m.tellMissing(ctx, out), out.Close())
	} else {
		err = out.Fail(err)
	}
	if err != nil {
		m.Logger.Warn("a backup broke off on its way", "error", err)
	}
}

func (m *Maker) archive(ctx context.Context, out *archive.Writer, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.Database(info.Size(), file); err != nil || m.Artifacts == nil {
		return err
	}
	return m.Artifacts.Each(ctx, func(b artifact.Info) error {
		blob, err := m.Artifacts.Raw(ctx, b.Digest)
		var lost *artifact.Error
		if errors.As(err, &lost) && lost.Code == artifact.CodeBlobUnknown { // the rest is worth a backup all the more
			out.Lack(b.Digest, m.needs(b.Digest)...)
			return nil
		}
		if err != nil {
			return err
		}
		defer blob.Close()
		return out.Add(archive.Blob(b), blob)
	})
}

// needs names the releases whose agent a blob is.
func (m *Maker) needs(digest string) []string {
	if m.Releases == nil {
		return nil
	}
	return m.Releases.Needs(digest)
}

// tellMissing records that blobs of the registry are lost or damaged: who does backups unattended finds it in the events.
func (m *Maker) tellMissing(ctx context.Context, out *archive.Writer) error {
	count, some, needed := out.Missing()
	if count == 0 {
		return nil
	}
	m.Logger.Error("blobs of the registry are lost or damaged, and the backup lacks them", "count", count, "first", some[0], "needed", needed)
	e := m.Event("backup.incomplete")
	e.Outcome = "blobs_missing"
	e.Detail = map[string]string{"lacks": strconv.Itoa(count), "first": some[0], "next": "muster help backup"}
	if len(needed) > 0 {
		e.Detail["needed"] = strings.Join(needed, ", ")
	}
	return m.Store.AddEvents(ctx, e)
}

// RemoveScratch removes copies of the database that a gateway left because it died during a backup. No gateway may use the directory
// meanwhile.
func RemoveScratch(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, scratch+"*", datadir.Database))
	for _, path := range left {
		os.RemoveAll(filepath.Dir(path))
	}
}
