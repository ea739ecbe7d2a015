package spool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
)

const (
	magic      = "muster spool 1\n\x00"
	nameBytes  = 8
	headSize   = len(magic) + nameBytes + 8 + 4 // the magic, the spool's name, the first number, a checksum
	recordHead = 4 + 4 + 8 + 1                  // the length of the data, a checksum, the number, the kind
	kindData   = 0
	kindGap    = 1
	suffix     = ".spool"
	digits     = 19 // of the largest number
)

// errDamaged is what is not a record of this spool.
var errDamaged = errors.New("the record is damaged")

func checksum(parts ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := uint32(0)
	for _, p := range parts {
		sum = crc32.Update(sum, table, p)
	}
	return sum
}

func segmentName(first int64) string { return fmt.Sprintf("%0*d%s", digits, first, suffix) }

// segmentFirst is the number in a segment's name. ok is false for other files.
func segmentFirst(name string) (first int64, ok bool) {
	text, ok := strings.CutSuffix(name, suffix)
	if !ok || len(text) != digits {
		return 0, false
	}
	first, err := strconv.ParseInt(text, 10, 64)
	return first, err == nil && first > 0
}

func encodeHead(name string, first int64) []byte {
	raw, _ := hex.DecodeString(name) // newName made it, or decodeHead
	out := append([]byte(magic), raw...)
	out = binary.LittleEndian.AppendUint64(out, uint64(first))
	return binary.LittleEndian.AppendUint32(out, checksum(out))
}

// decodeHead reads a segment's head. ok is false if it is damaged.
func decodeHead(head []byte) (name string, first int64, ok bool) {
	if len(head) != headSize || !bytes.HasPrefix(head, []byte(magic)) {
		return "", 0, false
	}
	body := head[:headSize-4]
	if binary.LittleEndian.Uint32(head[headSize-4:]) != checksum(body) {
		return "", 0, false
	}
	first = int64(binary.LittleEndian.Uint64(body[headSize-4-8:]))
	return hex.EncodeToString(body[len(magic) : len(magic)+nameBytes]), first, first > 0
}

func appendRecord(to []byte, number int64, kind byte, data []byte) []byte {
	var head [recordHead]byte
	binary.LittleEndian.PutUint32(head[0:], uint32(len(data)))
	binary.LittleEndian.PutUint64(head[8:], uint64(number))
	head[16] = kind
	binary.LittleEndian.PutUint32(head[4:], checksum(head[:4], head[8:], data))
	return append(append(to, head[:]...), data...)
}

// readRecord reads one record. io.EOF: there is none. errDamaged: what is there is none. size is how many bytes of the file it has.
func readRecord(r *bufio.Reader) (record Record, size int64, err error) {
	var head [recordHead]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		if n == 0 && err == io.EOF {
			return Record{}, 0, io.EOF
		}
		return Record{}, 0, errDamaged
	}
	length := binary.LittleEndian.Uint32(head[0:])
	if length > MaxRecord {
		return Record{}, 0, errDamaged
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(length))) // it grows with what is there: a length alone takes no memory
	if err != nil || len(data) != int(length) || binary.LittleEndian.Uint32(head[4:]) != checksum(head[:4], head[8:], data) {
		return Record{}, 0, errDamaged
	}
	record = Record{Number: int64(binary.LittleEndian.Uint64(head[8:]))}
	switch head[16] {
	case kindData:
		record.Data = data
	case kindGap:
		record.Gap, err = decodeGap(data, record.Number)
	default:
		err = errDamaged
	}
	if record.Number <= 0 {
		err = errDamaged
	}
	return record, recordHead + int64(length), err
}

func encodeGap(g Gap) []byte {
	text, _ := json.Marshal(g) // numbers and a string
	return text
}

func decodeGap(data []byte, number int64) (*Gap, error) {
	var g Gap
	if json.Unmarshal(data, &g) != nil || g.To != number || g.From <= 0 || g.From > g.To || g.Lost < 0 {
		return nil, errDamaged
	}
	return &g, nil
}
