package host

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// maxText bounds the text of an event, in bytes.
const maxText = 200

// Record is one record of the kernel's log.
type Record struct {
	Sequence uint64
	At       time.Duration // since the boot
	Level    int           // 0 to 7, the worst first, as in syslog
	Kernel   bool          // the kernel wrote it, and not a program
	Text     string        // may have several lines
}

// ParseRecord reads a record as /dev/kmsg gives it: "priority,sequence,microseconds,flags;text", and further lines that describe the device
// (Documentation/ABI/testing/dev-kmsg of Linux). Later kernels add fields before the semicolon.
func ParseRecord(raw []byte) (r Record, ok bool) {
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	head, text, ok := strings.Cut(string(line), ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		return Record{}, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	sequence, err2 := strconv.ParseUint(fields[1], 10, 63)
	micros, err3 := strconv.ParseUint(fields[2], 10, 53)
	if err != nil || err2 != nil || err3 != nil {
		return Record{}, false
	}
	const levels = 8 // what is above them is the facility, and 0 is the kernel
	return Record{
		Sequence: sequence, At: time.Duration(micros) * time.Microsecond,
		Level: int(priority % levels), Kernel: priority/levels == 0, Text: unescape(text),
	}, true
}

// unescape turns \x0a and the like into the bytes that they stand for.
func unescape(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if strings.HasPrefix(text[i:], `\x`) && len(text) >= i+4 {
			if code, err := strconv.ParseUint(text[i+2:i+4], 16, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
