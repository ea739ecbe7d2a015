package adminapi

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/door"
)

// scratch begins the name of the directory for a copy.
const scratch = "backup-"

// backup sends a consistent copy of the database. It makes the whole copy as a file first, so that a failure is answered as an error,
// and not in the middle of the copy.
func (s *server) backup(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	if s.Scratch == "" {
		return nil, wire.Refuse(wire.CodeBadRequest, "this gateway has no place for a copy of its database", "start it with a data directory")
	}
	dir, err := os.MkdirTemp(s.Scratch, scratch)
	if err != nil {
		return nil, fmt.Errorf("a place for the copy: %w", err)
	}
	defer os.RemoveAll(dir)
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
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := os.RemoveAll(dir); err != nil { // the open file is enough; removed now, it is gone even if the process dies
		return nil, err
	}
	return streamed{}, s.stream(c.w, file)
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

// RemoveScratch removes copies of the database that a gateway left because it died during a backup. No gateway may use the directory
// meanwhile.
func RemoveScratch(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, scratch+"*", datadir.Database))
	for _, path := range left {
		os.RemoveAll(filepath.Dir(path))
	}
}
