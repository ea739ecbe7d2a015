package recording

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A file of a recording begins with fileMark and the key of the recording, which is sealed with AES-256-GCM under the key of all
// recordings, for the id of the session. Chunks follow. Each is a head and some lines of the recording, sealed under the recording's own
// key.
//
// The nonce of a chunk is its number. The head, which says how long the chunk is and whether it is the last one, is authenticated with it.
// So a chunk opens in its own place alone: none can be left out, doubled or swapped. If the last one does not say that it is the last,
// the file was cut off.
const (
	fileMark  = "muster recording 1\n"
	keySize   = 32
	sealing   = 12 + keySize + 16 // nonce, key, tag
	fileHead  = len(fileMark) + sealing
	chunkHead = 1 + 4
	chunkTag  = 16
	maxChunk  = 64 << 10 // bytes of lines in one chunk
)

// Marks of a chunk.
const (
	chunkMore = 0
	chunkLast = 1
)

// errDamaged is the error of a file that is not as it was written.
var errDamaged = errors.New("it is not as it was written")

// newHead makes the beginning of a file, and the key of its chunks.
func newHead(of cipher.AEAD, id string) ([]byte, cipher.AEAD, error) {
	key := make([]byte, keySize)
	rand.Read(key)
	chunks, err := chunkCipher(key)
	return of.Seal([]byte(fileMark), nil, key, place(id)), chunks, err
}

// readHead reads the beginning of a file. The error is io.EOF or io.ErrUnexpectedEOF where the file ends within it.
func readHead(from io.Reader, of cipher.AEAD, id string) (cipher.AEAD, error) {
	head := make([]byte, fileHead)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	if string(head[:len(fileMark)]) != fileMark {
		return nil, fmt.Errorf("%w: its beginning is no recording's", errDamaged)
	}
	key, err := of.Open(nil, nil, head[len(fileMark):], place(id))
	if err != nil {
		return nil, fmt.Errorf("%w: its key does not open; another gateway sealed it, or another session's file lies in its place", errDamaged)
	}
	return chunkCipher(key)
}

func place(id string) []byte { return []byte("recordings/" + id) }

func chunkCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func chunkNonce(number uint64) []byte {
	nonce := make([]byte, 12)
	binary.BigEndian.PutUint64(nonce[4:], number)
	return nonce
}

// sealChunk appends a chunk to out.
func sealChunk(out []byte, chunks cipher.AEAD, number uint64, lines []byte, last bool) []byte {
	head := make([]byte, chunkHead)
	head[0] = chunkMore
	if last {
		head[0] = chunkLast
	}
	binary.BigEndian.PutUint32(head[1:], uint32(len(lines)))
	return chunks.Seal(append(out, head...), chunkNonce(number), lines, head)
}

// reader reads the chunks of a file.
type reader struct {
	from   io.Reader
	chunks cipher.AEAD
	number uint64
	buffer []byte
}

// next gives the lines of the next chunk. They are good until the next call. The error is io.EOF or io.ErrUnexpectedEOF where the file is
// cut off, and wraps errDamaged where it is not as it was written.
func (r *reader) next() (lines []byte, last bool, err error) {
	head := make([]byte, chunkHead)
	if _, err := io.ReadFull(r.from, head); err != nil {
		return nil, false, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if head[0] > chunkLast || size > maxChunk {
		return nil, false, fmt.Errorf("%w: its part %d has no beginning", errDamaged, r.number+1)
	}
	if r.buffer == nil {
		r.buffer = make([]byte, maxChunk+chunkTag)
	}
	sealed := r.buffer[:size+chunkTag]
	if _, err := io.ReadFull(r.from, sealed); err != nil {
		return nil, false, err
	}
	lines, err = r.chunks.Open(sealed[:0], chunkNonce(r.number), sealed, head)
	if err != nil {
		return nil, false, fmt.Errorf("%w: its part %d does not open", errDamaged, r.number+1)
	}
	r.number++
	return lines, head[0] == chunkLast, r.nothingBehind(head[0] == chunkLast)
}

// nothingBehind refuses bytes behind the last chunk.
func (r *reader) nothingBehind(last bool) error {
	if !last {
		return nil
	}
	var more [1]byte
	if _, err := io.ReadFull(r.from, more[:]); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something stands behind its end", errDamaged)
	}
	return nil
}
