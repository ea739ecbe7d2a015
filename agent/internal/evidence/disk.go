package evidence

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"syscall"
	"time"

	"muster/agent/disk"
)

const (
	leastRoom   = 10 << 30 // bytes that have to be free: an image with CUDA takes most of that
	mostWritten = 256 << 20
	leastSpeed  = 16 << 20 // bytes: with less, nothing is measured
	diskPiece   = 4 << 20
)

// free is how many bytes may be written beside the agent's state.
func (r *run) free() (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(r.State, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

func (r *run) diskRoom() finding {
	free, err := r.free()
	if err != nil {
		return unknown("see how much room there is: %v", err)
	}
	gib := float64(free) / (1 << 30)
	r.figure("disk_free", gib, "GiB")
	if free < leastRoom {
		return failed("%.1f GiB are free, and %d GiB are needed", gib, leastRoom>>30)
	}
	return well("%.0f GiB are free", gib)
}

// diskSpeed writes a file and reads it again. It takes a tenth of the free room at most.
func (r *run) diskSpeed(ctx context.Context) finding {
	free, err := r.free()
	if err != nil {
		return unknown("see how much room there is: %v", err)
	}
	size := min(free/10, mostWritten) / diskPiece * diskPiece
	if size < leastSpeed {
		return unknown("%d MiB are free: too little to measure with", free>>20)
	}
	write, read, err := measureDisk(ctx, r.State, size)
	if err != nil {
		return unknown("measure the disk: %v", err)
	}
	r.figure("disk_write", write, "MB/s")
	r.figure("disk_read", read, "MB/s")
	return well("%.0f MB/s written, %.0f MB/s read, %d MiB each", write, read, size>>20)
}

// measureDisk gives the speed of writing and of reading in MB/s. The file has no name any more before it holds anything, so nothing of it
// is left whatever ends the agent.
func measureDisk(ctx context.Context, folder string, size int64) (write, read float64, err error) {
	file, err := os.CreateTemp(folder, ".disk-speed-")
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return 0, 0, err
	}
	piece := random(diskPiece)
	began := time.Now()
	for at := int64(0); at < size && err == nil; at += diskPiece {
		if _, err = file.WriteAt(piece, at); err == nil {
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		err = disk.Steps(nil).Sync("the file that measures the disk", file)
	}
	if err != nil {
		return 0, 0, err
	}
	write = speed(size, time.Since(began))
	forget(file)
	began = time.Now()
	for at := int64(0); at < size && err == nil; at += diskPiece {
		if _, err = io.ReadFull(io.NewSectionReader(file, at, diskPiece), piece); err == nil {
			err = context.Cause(ctx)
		}
	}
	return write, speed(size, time.Since(began)), err
}

// forget asks the kernel to drop what it has of the file in memory, so that it is read from the disk. It may do so or not.
func forget(file *os.File) {
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0)
}

// speed is in MB/s.
func speed(size int64, took time.Duration) float64 {
	return float64(size) / 1e6 / max(took, time.Microsecond).Seconds()
}

// random are bytes that nothing on the way can make fewer.
func random(n int) []byte {
	data := make([]byte, n)
	rand.Read(data)
	return data
}
