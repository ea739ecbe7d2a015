// Package asset reads the files that pages refer to: styles, scripts and pictures.
package asset

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"path"

	"muster/gateway/internal/reply"
)

// File is one file, and its kind as HTTP has it.
type File struct {
	reply.File
	Kind string
}

// Read reads the files of a folder, by their names. They are embedded, so one that cannot be read is a programming error and panics.
func Read(files fs.FS, folder string) map[string]File {
	all := map[string]File{}
	err := fs.WalkDir(files, folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		sum := sha256.Sum256(text)
		all[path.Base(name)] = File{reply.FileOf(text, hex.EncodeToString(sum[:8])), kind(name)}
		return err
	})
	if err != nil {
		panic("web: " + err.Error())
	}
	return all
}

func kind(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}
