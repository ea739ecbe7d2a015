package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/agent/disk"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/backup/archive"
	"muster/gateway/internal/datadir"
	"muster/store"
	"muster/store/registry"
)

// backup is one that is to be brought back.
type backup struct {
	path  string
	blobs map[string]int64 // sizes by digest; nil: it is the database alone
	lacks int              // blobs that the gateway had lost when it made the backup
}

// logEnd ends the name of the log that SQLite has beside a database.
const logEnd = "-wal"

// take reads a backup to its end, and writes its database into a new file. Nothing of a backup that is damaged or cut off is used.
func take(steps disk.Steps, path, database string) (backup, error) {
	b := backup{path: path}
	file, err := os.Open(path)
	if err != nil {
		return b, err
	}
	defer file.Close()
	if archive.IsDatabase(file) {
		if log, err := os.Stat(path + logEnd); err == nil && log.Size() > 0 { // of a gateway that was killed: the newest is there alone
			if err := steps.Copy(path+logEnd, database+logEnd); err != nil {
				return b, err
			}
		}
		return b, steps.Copy(path, database)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return b, err
	}
	b.blobs = map[string]int64{}
	summary, err := archive.Read(file, archive.Visitor{
		Database: func(_ int64, content io.Reader) error { return steps.Fill(database, content) },
		Blob: func(blob archive.Blob, _ io.Reader) error {
			b.blobs[blob.Digest] = blob.Size
			return nil
		},
	})
	b.lacks = summary.Lacks
	return b, err
}

// complete makes sure that each blob that the copy of the database names is in the backup, but for those that it says it lacks. If the
// backup is the database alone, a blob may be in the data directory still. The copy forgets the others, so that they can be pushed again.
// It gives their number.
func (b backup) complete(ctx context.Context, s *store.Store, folder string) (lost int, err error) {
	records := registry.On(s.Records())
	var gone []string
	err = artifact.Each(ctx, records, func(blob artifact.Info) error {
		if !b.has(blob, folder) {
			gone = append(gone, blob.Digest)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if b.blobs != nil && len(gone) > b.lacks {
		return 0, fmt.Errorf("it lacks %d blobs of its registry, the first is %s", len(gone), gone[0])
	}
	return len(gone), records.ForgetBlobs(ctx, gone)
}

func (b backup) has(blob artifact.Info, folder string) bool {
	if b.blobs != nil {
		size, ok := b.blobs[blob.Digest]
		return ok && size == blob.Size
	}
	file, err := artifact.File(folder, blob)
	return err == nil && file.Close() == nil
}

// blobsFolder is where a registry keeps its blobs; see package artifact.
const blobsFolder = "blobs"

// place writes the backup's blobs into the folder of the registry. It takes none away, so the database that is there has all of its own
// until the other one takes its place.
func (b backup) place(steps disk.Steps, folder string) error {
	if len(b.blobs) == 0 {
		return nil
	}
	file, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = archive.Read(file, archive.Visitor{Blob: func(blob archive.Blob, content io.Reader) error {
		return artifact.Import(steps, folder, artifact.Info(blob), content)
	}})
	return err
}

// keepBlobs links the blobs of the registry that is there into another folder, where the gateway does not remove them.
func keepBlobs(steps disk.Steps, folder, aside string) error {
	from := filepath.Join(folder, blobsFolder)
	var made []string
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(aside, blobsFolder, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			made = append(made, to)
			return steps.MakeFolders(to, 0o700)
		}
		if err := os.Link(path, to); !errors.Is(err, fs.ErrNotExist) { // a gateway that runs has removed it
			return err
		}
		return nil
	})
	for _, folder := range made {
		err = errors.Join(err, steps.SyncFolder("the old blobs", folder))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// folderOf is the registry of a data directory.
func folderOf(data string) string { return filepath.Join(data, datadir.Registry) }
