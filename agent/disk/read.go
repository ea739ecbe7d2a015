package disk

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// OpenFile opens a file to read it. It refuses anything else in the file's place, such as a pipe, and does not wait for it.
func OpenFile(path string) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// ReadFile reads a file that has at most most bytes. It returns an error for a larger file, without reading it into memory.
func ReadFile(path string, most int64) ([]byte, error) {
	file, _, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(raw)) > most:
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return raw, nil
}

// ReadEnd reads the end of a file, at most most bytes of it, from the beginning of a line: half a line could be half a secret. It leaves
// out what stands before from, unless a new file was begun.
func ReadEnd(path string, from, most int64) ([]byte, error) {
	file, info, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if from > info.Size() {
		from = 0
	}
	start := max(from, info.Size()-most)
	raw, err := io.ReadAll(io.NewSectionReader(file, start, most))
	if start > from {
		_, raw, _ = bytes.Cut(raw, []byte("\n"))
	}
	return raw, err
}
