package fleet

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// newID makes the id of a node or of an enrolment: a prefix that says what it identifies, a dash, and 16 hex digits. The first 9
// digits are the time in tenths of a second. So rows that are written together lie together in every index, and a commit writes
// few pages. The other 7 digits are random. An id may be taken already: the database then reports a conflict, and the next try
// makes another.
func newID(prefix string, now time.Time) string {
	var random [8]byte
	rand.Read(random[4:])
	id := uint64(now.UnixMilli()/100)<<28 | uint64(binary.BigEndian.Uint32(random[4:]))>>4
	binary.BigEndian.PutUint64(random[:], id)
	return prefix + "-" + hex.EncodeToString(random[:])
}

// nodePrefix begins the id of every node.
const nodePrefix = "n"

// likeID is true for names that look like a node's id. Nodes are found by name or by id, so such a name could hide another node.
func likeID(name string) bool {
	digits, ok := strings.CutPrefix(name, nodePrefix+"-")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// otherName is the hint for a machine that cannot have a name. If its token gives the name, the flag of the agent changes nothing.
func otherName(given string) string {
	if given != "" {
		return "the token gives this name: make another token, with muster token create --name NAME"
	}
	return "choose another with --name"
}
