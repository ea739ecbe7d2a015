package rqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"muster/store/engine"
)

// backupTime is how long the cluster may take to give a copy.
const backupTime = 30 * time.Minute

// header begins every database file of SQLite (https://www.sqlite.org/fileformat.html, 1.3). The size of a page and the number of pages are
// in it.
const (
	headerText   = "SQLite format 3\x00"
	headerSize   = 100
	pageSizeAt   = 16
	pageCountAt  = 28
	largestPage  = 65536 // is written as 1
	writtenAsOne = 1
)

// Backup writes a consistent copy of the database to a new file with mode 0600, as the leader has it. Reads and writes go on meanwhile. It
// refuses an existing file. A node may answer with an error's text under status 200, and an answer may be cut: neither becomes a file.
func (db *DB) Backup(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, backupTime)
	defer cancel()
	if err := engine.NewFile(path, func(f *os.File) error { return db.copyTo(ctx, f) }); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// copyTo asks each node once, from the one that answered last.
func (db *DB) copyTo(ctx context.Context, f *os.File) (err error) {
	for range db.base {
		at := int(db.next.Load()) % len(db.base)
		if err = db.copyFrom(ctx, db.base[at], f); err == nil || ctx.Err() != nil {
			return err
		}
		db.next.CompareAndSwap(int64(at), int64((at+1)%len(db.base)))
	}
	return err
}

func (db *DB) copyFrom(ctx context.Context, base string, f *os.File) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/db/backup?timeout="+backupTime.String(), nil)
	if err != nil {
		return err
	}
	response, err := db.do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, mostText))
		return fmt.Errorf("rqlite answered with status %d: %q", response.StatusCode, text)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	size, err := io.Copy(f, response.Body)
	if err != nil {
		return err
	}
	return whole(f, size)
}

// whole is nil if a file is a database of SQLite, and as long as it says.
func whole(f io.ReaderAt, size int64) error {
	var header [headerSize]byte
	n, err := f.ReadAt(header[:], 0)
	if !bytes.HasPrefix(header[:n], []byte(headerText)) {
		return fmt.Errorf("rqlite gave no database: %.200q", header[:n])
	}
	if err != nil {
		return err
	}
	page := int64(binary.BigEndian.Uint16(header[pageSizeAt:]))
	if page == writtenAsOne {
		page = largestPage
	}
	if want := page * int64(binary.BigEndian.Uint32(header[pageCountAt:])); size != want {
		return fmt.Errorf("rqlite gave %d bytes of a database of %d", size, want)
	}
	return nil
}
