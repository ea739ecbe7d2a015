package region

import (
	"context"
	"errors"
	"net/url"

	"muster/agent/wire"
)

const pathTags = "tags/"

// Tag is a tag. If it has a definition, MAAS itself sets it, and takes it from machines to which a client has added it.
type Tag struct {
	Name       string
	Definition string // an XPath over what lshw shows; empty: people and clients set the tag
}

func (t Tag) checked() (Tag, error) {
	if !tagName.MatchString(t.Name) {
		return Tag{}, errors.New("a tag has no name")
	}
	const longest = 4096 // bytes
	t.Definition = wire.Plain(t.Definition, longest)
	return t, nil
}

// Tags calls each with the tags.
func (c *Client) Tags(ctx context.Context, each func(Tag) error) error {
	return c.do(ctx, request{path: pathTags}, rows(Tag.checked, each))
}

// CreateTag makes a tag that clients set. The error is a Refused if the tag exists already, or if the name is not allowed.
func (c *Client) CreateTag(ctx context.Context, name, comment string) error {
	if err := c.tagOK(name); err != nil {
		return err
	}
	f := url.Values{"name": {name}, "comment": {comment}}
	return c.do(ctx, request{path: pathTags, form: f}, one(func(made Tag) error {
		if made.Name != name {
			return errors.New("it is of another tag")
		}
		return nil
	}))
}

func (c *Client) tagOK(name string) error {
	if !tagName.MatchString(name) {
		return c.fail(request{op: "tag"}, Unreached, 0, "a tag has letters, digits, - and _, at most 256")
	}
	return nil
}

// Retag gives machines a tag and takes it from others. MAAS passes over ids that it does not know. For a tag with a definition, what is
// added does not last. Whoever must know reads the machines afterwards. An answer that does not say how many machines it is about is not
// that of MAAS.
func (c *Client) Retag(ctx context.Context, tag string, add, remove []string) error {
	if err := c.tagOK(tag); err != nil {
		return err
	}
	r := request{path: pathTags + tag + "/", op: "update_nodes", form: url.Values{"add": add, "remove": remove}}
	return c.do(ctx, r, one(func(counts struct{ Added, Removed maybe[int] }) error {
		if counts.Added.v == nil || counts.Removed.v == nil {
			return errors.New("it does not say how many")
		}
		return nil
	}))
}
