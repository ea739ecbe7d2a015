package tree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"muster/agent/pipe"
)

// Target is where a folder is received.
type Target struct {
	Line    Line
	Top     *Top
	Mask    fs.FileMode         // permissions that are kept
	Trouble func(Trouble) error // is told what cannot be written; its error ends the copy
	Moved   func(string, Count) // is told how far it is, and with which file; nil: nobody is
}

// Receive receives a folder. It changes files only in the goroutine of its caller. The error says why the copy ended early; the files that
// are there by then stay, and the same copy continues with them.
func Receive(ctx context.Context, t Target) (Count, error) {
	r := &receiving{Target: t, ctx: ctx}
	defer r.drop()
	err := r.all()
	if err != nil {
		r.leave()
	}
	return r.count, err
}

func (r *receiving) all() error {
	for {
		kind, data, err := r.Line.Next()
		if err == nil {
			err = context.Cause(r.ctx)
		}
		if err != nil {
			return err
		}
		switch kind {
		case pipe.FrameEntry:
			err = r.entry(data)
		case pipe.FrameInput, pipe.FrameOutput:
			err = r.content(data)
		case pipe.FrameSum:
			err = r.sum(data)
		case pipe.FrameInputEnd:
			return r.finish()
		}
		if err != nil {
			return err
		}
	}
}

// receiving is a folder that comes.
type receiving struct {
	Target
	ctx     context.Context
	folders []folder
	paths   int    // bytes of the paths of all folders
	wanted  []want // files, in the order in which their content comes
	part    *part  // of the first one; nil: nothing of it came yet
	dead    bool   // the rest of the first one is no use
	count   Count
}

// folder is one whose time is set at the end, when nothing changes in it any more.
type folder struct {
	path string
	time int64
	mode fs.FileMode
	made bool // it was not there before this copy, or an earlier try of it
	is   identity
}

// identity is of the folder, whatever its name leads to later.
type identity struct{ device, inode uint64 }

func identityOf(info fs.FileInfo) identity {
	status, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return identity{}
	}
	return identity{uint64(status.Dev), status.Ino}
}

// want is a file whose content was asked for.
type want struct {
	Entry
	offset int64
}

// fail tells of something that cannot be written, and goes on, unless nothing else could be written either.
func (r *receiving) fail(path []byte, why error) error {
	if full(why) {
		return why
	}
	return r.Trouble(Trouble{Path: path, Why: reason(why)})
}

func (r *receiving) entry(data []byte) error {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if err := e.check(); err != nil {
		return err
	}
	if len(r.folders) == 0 && !isTop(e.Path) {
		return errors.New("the folder itself has to come first")
	}
	mode := fs.FileMode(e.Mode) & r.Mask
	var err error
	switch e.Kind {
	case Folder:
		if r.paths += len(e.Path); len(r.folders) >= mostFolders || r.paths > mostPaths {
			return fmt.Errorf("there are more than %d folders, or their paths have more than %d bytes: copy some of them at a time",
				mostFolders, mostPaths)
		}
		err = r.folder(folder{path: string(e.Path), time: e.Time, mode: mode})
	case Link:
		err = r.link(string(e.Path), string(e.Target))
	case File:
		return r.file(e)
	}
	if err != nil {
		return r.fail(e.Path, err)
	}
	return nil
}

// ownerMay is what the owner of a folder needs to fill it.
const ownerMay = 0o700

// folder makes a folder. What is there already keeps its permissions.
func (r *receiving) folder(f folder) error {
	if f.path == "." {
		if len(r.folders) > 0 {
			return errors.New("it came twice")
		}
		f.made = r.Top.fresh
	} else {
		err := r.Top.root.Mkdir(f.path, ownerMay|f.mode)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f.made = err == nil || r.Top.fresh // in a new folder, what is there is of an earlier try
	}
	info, err := r.Top.root.Lstat(f.path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("something that is no folder is in its place: " + place(info))
	}
	f.is = identityOf(info)
	r.folders = append(r.folders, f)
	return nil
}

func place(info fs.FileInfo) string {
	switch {
	case info.IsDir():
		return "a folder"
	case info.Mode().IsRegular():
		return "a file"
	case info.Mode()&fs.ModeSymlink != 0:
		return "a link"
	}
	return KindOf(info.Mode())
}

// link makes a link. It leads where it does, and nobody goes there.
func (r *receiving) link(path, target string) error {
	root := r.Top.root
	if now, err := root.Readlink(path); err == nil && now == target {
		return nil
	}
	if err := r.replaceable(path); err != nil {
		return err
	}
	beside := partName(path, target)
	_ = root.Remove(beside) // of an earlier try
	if err := root.Symlink(target, beside); err != nil {
		return err
	}
	if err := root.Rename(beside, path); err != nil {
		return errors.Join(err, root.Remove(beside))
	}
	return nil
}

// replaceable tells why a file or a link cannot come in the place of what is there.
func (r *receiving) replaceable(path string) error {
	info, err := r.Top.root.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular(), info.Mode()&fs.ModeSymlink != 0:
		return nil
	}
	return errors.New("something else is in its place: " + place(info))
}

// file says how much of a file is to be sent.
func (r *receiving) file(e Entry) error {
	if len(r.wanted) >= Window {
		return fmt.Errorf("more than %d files were announced at once", Window)
	}
	path := string(e.Path)
	if r.same(e) {
		r.count.Files++
		r.count.Same++
		r.moved(e)
		return send(r.Line, pipe.FrameWant, Want{Same: true})
	}
	if err := r.replaceable(path); err != nil {
		return errors.Join(r.fail(e.Path, err), send(r.Line, pipe.FrameWant, Want{Skip: true}))
	}
	w := want{Entry: e}
	if info, err := r.Top.root.Lstat(partOf(e)); err == nil && info.Mode().IsRegular() {
		w.offset = min(info.Size(), e.Size)
	}
	r.wanted = append(r.wanted, w)
	return send(r.Line, pipe.FrameWant, Want{Offset: w.offset})
}

// same tells whether a file is there already: one of the same size and time is taken for the same.
func (r *receiving) same(e Entry) bool {
	info, err := r.Top.root.Lstat(string(e.Path))
	return err == nil && info.Mode().IsRegular() && info.Size() == e.Size && info.ModTime().UnixMicro() == e.Time
}

// content takes bytes of the file that comes now.
func (r *receiving) content(data []byte) error {
	if err := r.begin(); err != nil || r.dead {
		return err
	}
	w := r.wanted[0]
	if r.part.bytes+int64(len(data)) > w.Size {
		return fmt.Errorf("more than %d bytes of %.80q came", w.Size, w.Path)
	}
	if err := r.part.add(data); err != nil {
		r.dead = true
		return r.fail(w.Path, err)
	}
	r.count.Bytes += int64(len(data))
	r.moved(w.Entry)
	return nil
}

// begin opens the part of the file that comes now.
func (r *receiving) begin() error {
	if len(r.wanted) == 0 {
		return errors.New("content came that nobody has asked for")
	}
	if r.part != nil || r.dead {
		return nil
	}
	w := r.wanted[0]
	part, err := r.Top.openPart(r.ctx, w)
	if err != nil {
		r.dead = true
		return r.fail(w.Path, err)
	}
	r.part = part
	return nil
}

// sum ends the file that comes now.
func (r *receiving) sum(data []byte) error {
	var said Sum
	if err := json.Unmarshal(data, &said); err != nil {
		return err
	}
	if len(r.wanted) == 0 || said.Error == "" { // without an error there is a part, also of no bytes
		if err := r.begin(); err != nil {
			return err
		}
	}
	w := r.wanted[0]
	var err error
	if said.Error == "" && !r.dead {
		err = r.part.finish(w.Entry, said.SHA256, fs.FileMode(w.Mode)&r.Mask)
		if err == nil {
			r.count.Files++
			r.moved(w.Entry)
		}
	}
	r.drop()
	r.wanted = r.wanted[1:]
	r.dead = false
	if err != nil {
		return r.fail(w.Path, err)
	}
	return nil
}

func (r *receiving) moved(e Entry) {
	if r.Moved != nil {
		r.Moved(string(e.Path), r.count)
	}
}

// drop lets go of the part that is open. What is in it stays for a later try.
func (r *receiving) drop() {
	if r.part != nil {
		r.part.close()
	}
	r.part = nil
}

// finish gives the folders their permissions and times, the inner ones first, and the new folder its name.
func (r *receiving) finish() error {
	if len(r.folders) == 0 || len(r.wanted) > 0 {
		return errors.New("the other end has ended the copy, and not all of it is here: copy again, and it goes on there")
	}
	for i := len(r.folders) - 1; i >= 0; i-- {
		if err := r.settle(r.folders[i]); err != nil {
			if err := r.fail([]byte(r.folders[i].path), err); err != nil {
				return err
			}
		}
	}
	return r.Top.finish()
}

// leave gives the folders that were made their permissions after a copy that failed: the next try finds them there, and takes them for
// somebody's own. Their owner can go on to fill them. A new folder stays shut, and the next try knows what is in it.
func (r *receiving) leave() {
	if r.Top.fresh {
		return
	}
	for _, f := range r.folders {
		if !f.made {
			continue
		}
		if file, err := r.still(f); err == nil {
			_ = file.Chmod(ownerMay | f.mode) // why the copy failed counts
			file.Close()
		}
	}
}

// settle gives a folder its permissions and its time.
func (r *receiving) settle(f folder) error {
	if f.path == "." && !f.made {
		return nil
	}
	file, err := r.still(f)
	if err != nil {
		return err
	}
	defer file.Close()
	if f.made {
		err = file.Chmod(f.mode)
	}
	at := time.UnixMicro(f.time)
	return errors.Join(err, r.Top.root.Chtimes(f.path, at, at))
}

// still opens a folder, if its name leads to it still: another process may have put something else there.
func (r *receiving) still(f folder) (*os.File, error) {
	file, err := r.Top.root.OpenFile(f.path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	named, missing := r.Top.root.Lstat(f.path)
	if err = errors.Join(err, missing); err == nil && (identityOf(opened) != f.is || identityOf(named) != f.is) {
		err = errors.New("something else is in its place by now: copy again")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
