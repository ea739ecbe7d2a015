package pipe

import (
	"bytes"
	"io"
	"io/fs"
	"syscall"
)

// leastHole is the least run of zeros that is left out, in bytes: a block of most file systems.
const leastHole = 4 << 10

// Sparse reports whether a file takes less room than it has bytes, because parts of it are holes.
func Sparse(info fs.FileInfo) bool {
	const block = 512 // of st_blocks, whatever the file system has
	status, known := info.Sys().(*syscall.Stat_t)
	return known && status.Blocks*block < info.Size()
}

// WriteSparse writes at the end of a file, and leaves out long runs of zeros: they read as zeros and take no room. If the last bytes are
// zeros, the caller must set the file's length at the end.
func WriteSparse(file io.WriteSeeker, data []byte) error {
	for len(data) > 0 {
		n, zeros := run(data)
		var err error
		if zeros {
			_, err = file.Seek(int64(n), io.SeekCurrent)
		} else {
			_, err = file.Write(data[:n])
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// run gives the length of the first blocks that are all zeros, or all are not.
func run(data []byte) (n int, zeros bool) {
	for n < len(data) {
		block := data[n:min(n+leastHole, len(data))]
		empty := len(bytes.TrimLeft(block, "\x00")) == 0
		if n > 0 && empty != zeros {
			break
		}
		zeros = empty
		n += len(block)
	}
	return n, zeros
}
