package screen

import (
	"bytes"
	"slices"
)

// Lines prints what a program writes, whole lines at a time, so that those of several programs do not mix within a line.
type Lines struct {
	Name  string // stands before each line
	Safe  bool   // what could control a terminal is escaped
	Whole bool   // the bytes go on as they come
	Print func([]byte) error

	rest []byte
}

// longestLine is how much of a line is held back for its end.
const longestLine = 64 << 10

// Write prints the lines that are complete.
func (l *Lines) Write(data []byte) (int, error) {
	if l.Whole {
		return len(data), l.Print(data)
	}
	l.rest = append(l.rest, data...)
	var out []byte
	for {
		end := bytes.IndexByte(l.rest, '\n')
		whole := end + 1
		if end < 0 && len(l.rest) < longestLine {
			break
		}
		if end < 0 || end > longestLine {
			end = longestLine
			whole = longestLine
		}
		out = l.line(out, l.rest[:end])
		l.rest = l.rest[whole:]
	}
	l.rest = slices.Clone(l.rest) // what was printed is not kept
	if len(out) == 0 {
		return len(data), nil
	}
	return len(data), l.Print(out)
}

func (l *Lines) line(out, text []byte) []byte {
	if l.Safe {
		text = []byte(PrintableLine(string(text)))
	}
	return append(append(append(out, l.Name...), text...), '\n')
}

// End prints what is left without the end of its line.
func (l *Lines) End() {
	if len(l.rest) > 0 {
		_ = l.Print(l.line(nil, l.rest))
		l.rest = nil
	}
}
