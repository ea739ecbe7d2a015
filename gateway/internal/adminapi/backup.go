package adminapi

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/internal/archive"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/door"
)

// scratch begins the name of the directory for a copy.
const scratch = "backup-"

// backup sends a consistent copy of the database and, where the query asks for it, of the registry. It makes the copy of the database as a
// file first, so that a failure of that is answered as an error, and not in the middle.
func (s *server) backup(c *call) (any, error) {
	p, err := c.query(client.BackupRegistry)
	if err != nil {
		return nil, err
	}
	whole, err := p.flag(client.BackupRegistry)
	if err != nil {
		return nil, err
	}
	if s.Scratch == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "this gateway has no place for a copy of its database", "start it with a data directory")
	}
	if !whole {
		file, err := s.copied(c)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return streamed{}, s.stream(c.w, file)
	}
	return streamed{}, s.keep(func() error { // every blob that the copy names stays until it was sent
		file, err := s.copied(c)
		if err != nil {
			return err
		}
		defer file.Close()
		s.streamAll(c, file)
		return nil
	})
}

// keep is the registry's, where there is one.
func (s *server) keep(do func() error) error {
	if s.Artifacts == nil {
		return do()
	}
	return s.Artifacts.Keep(do)
}

// copied makes a copy of the database. Its file has no name any more.
func (s *server) copied(c *call) (*os.File, error) {
	dir, err := os.MkdirTemp(s.Scratch, scratch)
	if err != nil {
		return nil, fmt.Errorf("a place for the copy: %w", err)
	}
	defer os.RemoveAll(dir) // the open file is enough; removed now, it is gone even if the process dies
	if err := s.Fleet.Flush(c.r.Context()); err != nil {
		return nil, err
	}
	if err := s.Store.NoteBackup(c.r.Context(), s.now(), c.event("backup.made")); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, datadir.Database)
	if err := s.Store.Backup(c.r.Context(), path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// stream sends the copy. Its length is sent first, so a client notices a copy that broke off. No error can be answered any more.
func (s *server) stream(w http.ResponseWriter, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", client.BackupType)
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	w.Header().Set("Cache-Control", "no-store")
	if _, err := io.Copy(door.Patient(w), file); err != nil {
		s.Logger.Warn("a backup broke off on its way", "error", err)
	}
	return nil
}

// streamAll sends an archive of the copy and of all blobs. The end of the archive tells whether it is whole, so it needs no length. A blob
// that was pushed since the copy is in it too, and does no harm.
func (s *server) streamAll(c *call, file *os.File) {
	c.w.Header().Set("Content-Type", client.BackupArchiveType)
	c.w.Header().Set("Cache-Control", "no-store")
	out := archive.NewWriter(door.Patient(c.w), s.now())
	err := s.archive(c, out, file)
	if err == nil {
		err = out.Close()
	} else {
		err = out.Fail(err)
	}
	if err != nil {
		s.Logger.Warn("a backup broke off on its way", "error", err)
	}
}

func (s *server) archive(c *call, out *archive.Writer, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.Database(info.Size(), file); err != nil || s.Artifacts == nil {
		return err
	}
	return s.Artifacts.Each(c.r.Context(), func(b artifact.Info) error {
		blob, err := s.Artifacts.Raw(c.r.Context(), b.Digest)
		if err != nil {
			return err
		}
		defer blob.Close()
		return out.Add(archive.Blob(b), blob)
	})
}

// RemoveScratch removes copies of the database that a gateway left because it died during a backup. No gateway may use the directory
// meanwhile.
func RemoveScratch(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, scratch+"*", datadir.Database))
	for _, path := range left {
		os.RemoveAll(filepath.Dir(path))
	}
}
