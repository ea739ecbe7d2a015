// Package tree carries a folder with all that is in it from one end of a session to the other. Both ends are here: Send and Receive.
//
// The sender announces each entry. The receiver answers each file with a Want: from which byte on it wants the content, or that it wants
// nothing. The content comes in the order of these answers, and a Sum behind it. Entries run ahead of the content by Window files at most,
// so small files do not wait for one another.
//
// Neither end trusts the other one. The receiver changes files through an os.Root alone: no name and no link leads out of the folder. It
// checks every name and number, bounds what it keeps, and gives a file its name when all of it is there and its SHA-256 is right.
package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"muster/agent/pipe"
	"muster/agent/wire"
)

const (
	// Window is how many files may be announced before their content has come.
	Window = 512
	// mostFolders and mostPaths bound the memory for folders: their times are set at the end. mostPaths is in bytes of all their paths.
	mostFolders = 1 << 20
	mostPaths   = 64 << 20
)

// Line carries frames to the other end and from it. Send is called by one goroutine, and Next by another one.
type Line interface {
	Send(kind pipe.FrameKind, data []byte) error
	// Next gives the next frame. Its data is good until the next call.
	Next() (pipe.FrameKind, []byte, error)
}

// Kind says what an entry is.
type Kind string

// Kinds of entries.
const (
	Folder Kind = "folder"
	File   Kind = "file"
	Link   Kind = "link"
)

// Entry announces one thing: the folder itself first, and each folder before what is in it. Names need not be UTF-8, so JSON has them in
// base64.
type Entry struct {
	Path   []byte `json:"path"` // from the folder on, with slashes; the folder itself is "."
	Kind   Kind   `json:"kind"`
	Mode   int    `json:"mode,omitempty"`   // of a folder or a file: its permission bits
	Time   int64  `json:"time,omitempty"`   // when it was changed last, in microseconds since 1970
	Size   int64  `json:"size,omitempty"`   // of a file, in bytes
	Sparse bool   `json:"sparse,omitempty"` // of a file: it takes less room than it has bytes
	Target []byte `json:"target,omitempty"` // of a link: where it leads
}

// Want answers the entry of a file.
type Want struct {
	Same   bool  `json:"same,omitempty"`   // it is there already: send nothing
	Skip   bool  `json:"skip,omitempty"`   // it cannot be written: send nothing
	Offset int64 `json:"offset,omitempty"` // so many bytes are there already
}

// Sum stands behind the content of a file.
type Sum struct {
	SHA256 string `json:"sha256,omitempty"` // of the whole file, in hex
	Error  string `json:"error,omitempty"`  // why the content is not whole
}

// Trouble says what was not copied.
type Trouble struct {
	Path   []byte `json:"path"`
	Why    string `json:"why"`
	Passed bool   `json:"passed,omitempty"` // it is of a kind that is never copied: no failure
}

// Count is how far a copy is.
type Count struct {
	Files int   // that are there, Same among them
	Same  int   // that were there before
	Bytes int64 // that were sent
}

// check refuses what cannot be announced.
func (e Entry) check() error {
	switch {
	case !proper(e.Path):
		return fmt.Errorf("the name %.80q leads out of the folder, or is none", e.Path)
	case e.Mode < 0 || e.Mode > 0o777:
		return fmt.Errorf("%.80q has permissions that cannot be", e.Path)
	case e.Size < 0 || e.Size > wire.MaxNumber || e.Time > wire.MaxNumber || e.Time < -wire.MaxNumber:
		return fmt.Errorf("%.80q has a size or a time that cannot be", e.Path)
	case e.Kind == Link && (len(e.Target) == 0 || len(e.Target) > wire.MaxSessionPath || bytes.IndexByte(e.Target, 0) >= 0):
		return fmt.Errorf("the link %.80q leads to what is no name", e.Path)
	case e.Kind != Folder && e.Kind != File && e.Kind != Link:
		return fmt.Errorf("%.80q is of an unknown kind", e.Path)
	case e.Kind != Folder && isTop(e.Path):
		return errors.New("what is sent is not a folder")
	}
	return nil
}

func isTop(path []byte) bool { return string(path) == "." }

// proper tells whether a path names something below the folder, or the folder itself. fs.ValidPath is the same for UTF-8 alone.
func proper(path []byte) bool {
	if isTop(path) {
		return true
	}
	if len(path) > wire.MaxSessionPath || bytes.IndexByte(path, 0) >= 0 {
		return false
	}
	for name := range bytes.SplitSeq(path, []byte("/")) {
		if len(name) == 0 || string(name) == "." || string(name) == ".." {
			return false
		}
	}
	return true
}

// reason is an error without the path, which stands beside it.
func reason(err error) string {
	var at *fs.PathError
	var between *os.LinkError
	switch {
	case errors.As(err, &at):
		return at.Err.Error()
	case errors.As(err, &between):
		return between.Err.Error()
	}
	return err.Error()
}

// full tells whether an error stops every other file too.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// KindOf names the kind of a thing that is not copied.
func KindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "it is a pipe"
	case mode&fs.ModeSocket != 0:
		return "it is a socket"
	case mode&fs.ModeDevice != 0:
		return "it is a device"
	}
	return "it is of a special kind"
}
