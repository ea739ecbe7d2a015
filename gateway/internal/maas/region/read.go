package region

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

const (
	longestRow    = 4 << 20 // bytes of one machine: those with hundreds of disks and interfaces have some 100 KiB
	longestAnswer = 8 << 20 // of an answer that is no list
)

// callerError is of the function that takes rows: it is the caller's own, and says nothing of MAAS.
type callerError struct{ error }

// errLarge is of an answer that has no end.
var errLarge = errors.New("it is longer than any answer of MAAS")

// ration reads so many bytes at most. More is an error, not an end.
type ration struct {
	from io.Reader
	left int
}

func (r *ration) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLarge
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// one has of take one value of JSON.
func one[R any](of func(R) error) func(*http.Response) error {
	return func(got *http.Response) error { return readOne(got.Body, of) }
}

// readOne reads one value of JSON, after which nothing stands.
func readOne[R any](from io.Reader, of func(R) error) error {
	d := json.NewDecoder(&ration{from, longestAnswer})
	var raw R
	if err := d.Decode(&raw); err != nil && !isOdd(err) {
		return cut(err)
	}
	if err := end(d); err != nil {
		return err
	}
	return of(raw)
}

// rows has each take the rows of a list.
func rows[R, T any](of func(R) (T, error), each func(T) error) func(*http.Response) error {
	return func(got *http.Response) error { return readRows(got.Body, of, each) }
}

// readRows reads a list, and has each take its rows, one after the other: one is in memory. Of makes a row of what MAAS writes. A list that
// ends early is an error, and the rows that came before prove nothing.
func readRows[R, T any](from io.Reader, of func(R) (T, error), each func(T) error) error {
	source := &ration{from, longestRow}
	d := json.NewDecoder(source)
	if err := delim(d, '['); err != nil {
		return err
	}
	for d.More() {
		source.left = longestRow
		var raw R
		if err := d.Decode(&raw); err != nil && !isOdd(err) {
			return cut(err)
		}
		row, err := of(raw)
		if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return callerError{err}
		}
	}
	source.left = longestRow
	if err := delim(d, ']'); err != nil {
		return err
	}
	return end(d)
}

// isOdd is true where a field has another type than it should: it stays unknown, and what must be known is looked at afterwards.
func isOdd(err error) bool {
	var odd *json.UnmarshalTypeError
	return errors.As(err, &odd)
}

// delim reads one of [ ].
func delim(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err != nil {
		return cut(err)
	}
	if got != want {
		return fmt.Errorf("it has no %s where one should be", want)
	}
	return nil
}

// end is nil where nothing follows.
func end(d *json.Decoder) error {
	_, err := d.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil || isSyntax(err):
		return errors.New("something follows its end")
	}
	return err
}

func isSyntax(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax)
}

// cut says that an answer ends early. An EOF would read like the end of everything.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
