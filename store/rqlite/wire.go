package rqlite

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"muster/store/engine"
)

// encode gives the lines of a request's body: ["SQL", parameter, ...] for each statement.
func encode(statements ...engine.Statement) ([][]any, error) {
	lines := make([][]any, 0, len(statements))
	for _, st := range statements {
		text, args, err := plain(st)
		if err != nil {
			return nil, err
		}
		lines = append(lines, append([]any{text}, args...))
	}
	return lines, nil
}

// plain gives a statement whose parameters arrive as they are. rqlite takes a text such as x'48' for a BLOB. Such a text gets a character
// in front, which the statement takes away again.
func plain(st engine.Statement) (text string, args []any, err error) {
	text = st.SQL
	args = st.Args
	for i, arg := range st.Args {
		switch v := arg.(type) {
		case nil, int64:
		case string:
			if !blobLike(v) {
				continue
			}
			if &args[0] == &st.Args[0] {
				args = append([]any{}, st.Args...)
			}
			args[i] = "." + v
			if text, err = wrapped(text, i); err != nil {
				return "", nil, err
			}
		default:
			return "", nil, fmt.Errorf("a parameter of type %T cannot be sent", arg)
		}
	}
	return text, args, nil
}

// blobLike tells whether rqlite would take a text for a BLOB: x'hex', blanks around it left out.
func blobLike(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) < 3 || text[0] != 'x' && text[0] != 'X' || text[1] != '\'' || text[len(text)-1] != '\'' {
		return false
	}
	_, err := hex.DecodeString(text[2 : len(text)-1])
	return err == nil
}

// wrapped puts substr(..., 2) around the parameter of a number in a statement. A question mark within quotes is no parameter.
func wrapped(text string, number int) (string, error) {
	var quote byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c != '?':
		case number > 0:
			number--
		default:
			return text[:i] + "substr(?, 2)" + text[i+1:], nil
		}
	}
	return "", errors.New("a statement has more arguments than parameters")
}

// reply is the body of an answer.
type reply struct {
	Results []outcome `json:"results"`
	Error   string    `json:"error"`
}

// outcome is what one statement did. Zero counts are left out.
type outcome struct {
	Columns  []string `json:"columns"`
	Values   [][]any  `json:"values"`
	Affected int64    `json:"rows_affected"`
	Error    string   `json:"error"`
}

// decode reads a body. The results are as many as the statements, or there is an error: rqlite ends its list at the first one, and those
// before it look as if they had been done.
func decode(body []byte, statements int) (reply, error) {
	var r reply
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("rqlite's answer cannot be read: %w", err)
	}
	if len(r.Results) > statements {
		return r, fmt.Errorf("rqlite has answered %d statements more", len(r.Results)-statements)
	}
	for i := range r.Results {
		if r.Results[i].Error != "" || r.Error != "" {
			return r, nil
		}
	}
	if r.Error == "" && len(r.Results) != statements {
		return r, fmt.Errorf("rqlite has answered %d of %d statements", len(r.Results), statements)
	}
	return r, nil
}

// rows are the values of a result: int64, string or nil. The schema of a shared store has no BLOB: a node gives one as text, in a form that
// depends on its column.
func (o *outcome) rows() ([][]any, error) {
	for _, row := range o.Values {
		for i, value := range row {
			var err error
			if row[i], err = column(value); err != nil {
				return nil, err
			}
		}
	}
	return o.Values, nil
}

func column(value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case json.Number:
		return v.Int64()
	case string:
		return v, nil
	}
	return nil, fmt.Errorf("rqlite gave a %T in a column", value)
}
