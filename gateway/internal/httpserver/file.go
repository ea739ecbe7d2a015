package httpserver

import (
	"errors"
	"io"
	"net"
	"os"
)

// errPlace means that the kernel sent another part of a file than it said. What follows would be wrong, so nothing follows.
var errPlace = errors.New("the place in the file is not where it should be")

// ReadFrom sends what a reader gives, by the rules of Write. The kernel sends a file by itself: its bytes do not pass through this process.
// net/http asks for that if an answer is a file.
func (c *Conn) ReadFrom(from io.Reader) (int64, error) {
	file := fileOf(from)
	to, ok := c.Conn.(*net.TCPConn)
	if !ok || file == nil {
		return io.Copy(struct{ io.Writer }{c}, from)
	}
	begin, err := file.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe, for example
		return io.Copy(struct{ io.Writer }{c}, from)
	}
	return c.send(func(done int64) (int64, error) {
		n, err := to.ReadFrom(from)
		// If the kernel does not send this file, it is read into memory. What was read and not sent is lost with a deadline.
		if at, wrong := file.Seek(0, io.SeekCurrent); wrong != nil || at != begin+done+n {
			return n, errors.Join(errPlace, wrong)
		}
		return n, err
	})
}

// fileOf is the file that a reader reads, as far as package net looks for one; nil if it reads something else.
func fileOf(from io.Reader) *os.File {
	if limited, ok := from.(*io.LimitedReader); ok {
		from = limited.R
	}
	file, _ := from.(*os.File)
	return file
}
