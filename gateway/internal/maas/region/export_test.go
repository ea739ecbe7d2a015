package region

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Ask sends any operation, and gives the answer to a success as it came. A nil form only reads.
func (c *Client) Ask(ctx context.Context, path, op string, query, form url.Values) (string, error) {
	text := ""
	err := c.do(ctx, request{path: path, op: op, query: query, form: form}, func(got *http.Response) error {
		body, err := io.ReadAll(got.Body)
		text = string(body)
		return err
	})
	return text, err
}

// ReadMachine, ReadMachines, ReadImages and ReadTags read what MAAS writes.
func ReadMachine(from io.Reader) (m Machine, err error) {
	err = readOne(from, func(raw rawMachine) (err error) { m, err = raw.machine(); return err })
	return m, err
}

func ReadMachines(from io.Reader, each func(Machine) error) error {
	return readRows(from, rawMachine.machine, each)
}

func ReadImages(from io.Reader, each func(string) error) error {
	return readRows(from, rawImage.name, each)
}

func ReadTags(from io.Reader, each func(Tag) error) error { return readRows(from, Tag.checked, each) }

// Say and Plain are what errors are made with.
var Say = say

func Plain(apiKey, text string) string {
	k, _ := readKey(apiKey)
	return k.plain(text)
}

// Bounds.
const (
	LongestRow  = longestRow
	LongestText = longestText
)
