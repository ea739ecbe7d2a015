package pipe

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// FrameKind says what a frame holds. The bytes of the channel Main are frames, in both directions, in every type of session. A side ignores
// frames of an unknown kind, so that a later version can say more.
type FrameKind byte

// Kinds of frames. The comment says who sends them, in which sessions, and what they hold.
const (
	FrameReady    FrameKind = 'r' // node, first in every session: it has begun. JSON: Ready
	FrameRefused  FrameKind = 'n' // node: it does not begin, or it ends early. JSON: wire.SessionRefused. Nothing follows
	FrameExit     FrameKind = 'q' // node, last in a session that ran: JSON: Exit
	FrameNotice   FrameKind = 'm' // node, gateway: a sentence for the person
	FrameInput    FrameKind = 'i' // operator: bytes of standard input, or of the file that is written
	FrameInputEnd FrameKind = 'e' // operator, or the node that sends a folder: no more of it. Empty
	FrameOutput   FrameKind = 'o' // node: bytes of standard output, of the terminal, of the file, or of lines of a log
	FrameError    FrameKind = 'x' // node: bytes of standard error
	FrameSize     FrameKind = 'w' // operator, shell: JSON: Size
	FrameSignal   FrameKind = 's' // operator, shell and exec: the name of a signal without SIG, such as INT
	FrameDial     FrameKind = 'd' // operator, forward: open a connection. JSON: Dial
	FrameDialed   FrameKind = 'D' // node, forward: the connection is there, or why not. JSON: Dialed
	FrameHangUp   FrameKind = 'h' // both, forward: the connection broke: drop what is on its way, and end the channel. JSON: Dial
	FrameEntry    FrameKind = 't' // who sends a folder: something in it. JSON: tree.Entry
	FrameWant     FrameKind = 'a' // who receives a folder: answers the entry of a file. JSON: tree.Want
	FrameSum      FrameKind = 'c' // who sends a folder: the content of a file ended. JSON: tree.Sum
	FrameTrouble  FrameKind = 'p' // node, copy of a folder: something was not copied. JSON: tree.Trouble
)

// Ready says that a session has begun.
type Ready struct {
	User      string `json:"user,omitempty"`
	Directory string `json:"directory,omitempty"`
	Size      int64  `json:"size,omitempty"`   // copy: of the file that is read, in bytes
	Mode      int    `json:"mode,omitempty"`   // copy: its permission bits
	Offset    int64  `json:"offset,omitempty"` // copy, write: so much of the file is there already: go on from here
	Sparse    bool   `json:"sparse,omitempty"` // copy, read: the file takes less room than it has bytes
	Folder    bool   `json:"folder,omitempty"` // copy: the path is a folder; nothing is copied unless a folder was asked for
}

// Exit says how a session ended.
type Exit struct {
	Code   int    `json:"code"`             // of the program; 128 plus its number where a signal ended it
	Signal string `json:"signal,omitempty"` // its name without SIG
	Error  string `json:"error,omitempty"`  // why the session failed; empty: it did not
	SHA256 string `json:"sha256,omitempty"` // copy: of the whole file, in hex
	Bytes  int64  `json:"bytes,omitempty"`  // copy: of the whole file
}

// Size is that of a terminal.
type Size struct {
	Rows    int `json:"rows"`
	Columns int `json:"columns"`
}

// Dial asks for one more connection, whose bytes go over a channel of its own. The operator chooses the channel's number: 1 or higher, each
// only once in a session. As FrameHangUp it says which connection broke.
type Dial struct {
	Channel int `json:"channel"`
}

// Dialed answers a Dial.
type Dialed struct {
	Channel int    `json:"channel"`
	Error   string `json:"error,omitempty"` // empty: bytes can flow
}

// MaxFrame is how many bytes a frame may hold.
const MaxFrame = 64 << 10

const frameHead = 5 // its kind, and its length as four bytes, big endian

// WriteFrame writes one frame with one Write. It is not split: data is at most MaxFrame bytes.
func WriteFrame(w io.Writer, kind FrameKind, data []byte) error {
	return (&FrameWriter{To: w}).Write(kind, data)
}

// FrameWriter writes frames, each with one Write. It uses the same memory for all of them. It is not safe for concurrent use.
type FrameWriter struct {
	To    io.Writer
	frame []byte
}

// Write does what WriteFrame does.
func (w *FrameWriter) Write(kind FrameKind, data []byte) error {
	if len(data) > MaxFrame {
		return fmt.Errorf("a frame of %d bytes: at most %d", len(data), MaxFrame)
	}
	if w.frame == nil {
		w.frame = make([]byte, 0, frameHead+len(data))
	}
	w.frame = append(w.frame[:0], byte(kind))
	w.frame = binary.BigEndian.AppendUint32(w.frame, uint32(len(data)))
	w.frame = append(w.frame, data...)
	_, err := w.To.Write(w.frame)
	return err
}

// WriteJSON writes a frame that holds a value as JSON.
func WriteJSON(w io.Writer, kind FrameKind, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return WriteFrame(w, kind, data)
}

// Frames reads frames.
type Frames struct {
	from *bufio.Reader
	data []byte
}

// NewFrames reads frames from a channel.
func NewFrames(from io.Reader) *Frames { return &Frames{from: bufio.NewReaderSize(from, 4<<10)} }

// Next returns the next frame. Its data is good until the next call. The error is io.EOF if the channel ended after a frame, and
// io.ErrUnexpectedEOF if it ended within a frame.
func (f *Frames) Next() (FrameKind, []byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > MaxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes: at most %d", size, MaxFrame)
	}
	if cap(f.data) < int(size) {
		f.data = make([]byte, size)
	}
	f.data = f.data[:size]
	if _, err := io.ReadFull(f.from, f.data); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return FrameKind(head[0]), f.data, nil
}
