package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"muster/gateway/internal/provider/cloud"
)

// Ask sends a request, and returns what read makes of the answer to a success.
func Ask[T any](ctx context.Context, c *Client, r Request, read func(io.Reader) (T, error)) (got T, err error) {
	err = c.Do(ctx, r, func(answer io.Reader) (err error) { got, err = read(answer); return err })
	if err != nil {
		return *new(T), err
	}
	return got, nil
}

// Instances reads a list without pages. If an instance is there twice, or cannot be told from others, the whole list is doubtful.
func Instances[T any](answer io.Reader, name string, seen func(T) (cloud.Instance, error)) ([]cloud.Instance, error) {
	all, known := []cloud.Instance{}, map[string]bool{}
	others, err := List(answer, name, func(row T) error {
		i, err := seen(row)
		if err != nil {
			return err
		}
		if known[i.ID] {
			return fmt.Errorf("it has the instance %s twice", i.ID)
		}
		known[i.ID] = true
		all = append(all, i)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, cloud.Whole(others)
}

// One reads one value of JSON. Nothing may stand behind it.
func One(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	if err := d.Decode(v); err != nil {
		return cut(err)
	}
	return end(d)
}

// List reads an object whose member name is a list, and calls row with each of its rows, one after the other: only one is in memory. It
// returns the other members, also if the list is missing. It is an error if the list is missing, if the object ends early, or if it has the
// list twice. After an error, the rows that came before it prove nothing.
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
