package remote

// act is what a person asks of muster itself, in the middle of what is typed for the node.
type act int

const (
	actNone  act = iota
	actLeave     // ~.
	actHelp      // ~?
)

// escapes finds what is typed for muster itself: behind a new line a tilde, and a character that says what. All else is for the node.
type escapes struct {
	within bool // the line has other characters already
	tilde  bool // one that was typed at the beginning of a line is held back
}

const tilde = '~'

// feed gives what is for the node, up to the first thing that is asked of muster, and what was typed behind that.
func (e *escapes) feed(typed []byte) (out []byte, asked act, rest []byte) {
	for i, c := range typed {
		if !e.tilde {
			e.tilde = !e.within && c == tilde
			if !e.tilde {
				out = e.pass(out, c)
			}
			continue
		}
		e.tilde = false
		switch c {
		case '.':
			return out, actLeave, typed[i+1:]
		case '?':
			return out, actHelp, typed[i+1:]
		case tilde:
			out = e.pass(out, c)
		default:
			out = e.pass(append(out, tilde), c)
		}
	}
	return out, actNone, nil
}

func (e *escapes) pass(out []byte, c byte) []byte {
	e.within = c != '\r' && c != '\n'
	return append(out, c)
}

const keysHelp = "~. leaves, and what runs there is ended; ~? shows this; ~~ is a tilde; all behind a new line"
