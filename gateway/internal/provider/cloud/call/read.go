package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// One reads one value of JSON, after which nothing stands.
func One(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	if err := d.Decode(v); err != nil {
		return cut(err)
	}
	return end(d)
}

// List reads an object whose member name is a list, and has row take each of its rows, one after the other: only one is in memory. It
// gives the other members, also where the list is missing. That is an error, as are an object that ends early and one that has the list
// twice. After an error, the rows that came before prove nothing.
func List[T any](r io.Reader, name string, row func(T) error) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(r)
	if err := delim(d, '{'); err != nil {
		return nil, err
	}
	others, found := map[string]json.RawMessage{}, false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, cut(err)
		}
		switch member := key.(string); {
		case member != name:
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return nil, cut(err)
			}
			others[member] = value
		case found:
			return nil, fmt.Errorf("it has %s twice", name)
		default:
			found = true
			if err := rows(d, row); err != nil {
				return nil, err
			}
		}
	}
	if err := delim(d, '}'); err != nil {
		return nil, err
	}
	if !found {
		return others, fmt.Errorf("it has no %s", name)
	}
	return others, end(d)
}

// rows reads a list.
func rows[T any](d *json.Decoder, row func(T) error) error {
	if err := delim(d, '['); err != nil {
		return err
	}
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			return cut(err)
		}
		if err := row(v); err != nil {
			return err
		}
	}
	return delim(d, ']')
}

// delim reads one of { } [ ].
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
	if errors.Is(err, io.EOF) {
		return nil
	}
	if errors.Is(err, errLarge) {
		return err
	}
	return errors.New("something follows its end")
}

// cut says that an answer ends early. An EOF would read like the end of everything.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
