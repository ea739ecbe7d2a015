package region

import (
	"context"
	"errors"
	"net/url"

	"muster/agent/wire"
)

const pathTags = "tags/"

// Tag is a tag. MAAS itself sets one with a definition, and takes it from machines to which a client has added it.
type Tag struct {
	Name       string
	Definition string // an XPath over what lshw shows; empty: people and clients set the tag
	Comment    string
	Kernel     string // options with which tagged machines start
}

type rawTag struct {
	Name, Definition, Comment string
	Kernel                    string `json:"kernel_opts"`
}

func (r rawTag) tag() (Tag, error) {
	if !tagName.MatchString(r.Name) {
		return Tag{}, errors.New("a tag has no name")
	}
	const longest = 4096 // bytes
	return Tag{r.Name, wire.Plain(r.Definition, longest), wire.Plain(r.Comment, longest), wire.Plain(r.Kernel, longest)}, nil
}

// Tags has each take the tags.
func (c *Client) Tags(ctx context.Context, each func(Tag) error) error {
	return c.do(ctx, request{path: pathTags}, rows(rawTag.tag, each))
}

// Tag reads one tag.
func (c *Client) Tag(ctx context.Context, name string) (Tag, error) {
	return c.tagged(ctx, name, request{path: pathTags + name + "/"})
}

// CreateTag makes a tag that clients set. A Refused says that it is there already, or that the name is not one.
func (c *Client) CreateTag(ctx context.Context, name, comment string) (Tag, error) {
	f := url.Values{"name": {name}}
	comments(f, comment)
	return c.tagged(ctx, name, request{path: pathTags, form: f})
}

// tagged sends a request that MAAS answers with this tag.
func (c *Client) tagged(ctx context.Context, name string, r request) (Tag, error) {
	var t Tag
	err := c.tagOK(name)
	if err != nil {
		return t, err
	}
	err = c.do(ctx, r, one(func(raw rawTag) error {
		var err error
		if t, err = raw.tag(); err == nil && t.Name != name {
			err = errors.New("it is of another tag")
		}
		return err
	}))
	return t, err
}

func (c *Client) tagOK(name string) error {
	if !tagName.MatchString(name) {
		return c.fail(request{op: "tag"}, Unreached, 0, "a tag has letters, digits, - and _, at most 256")
	}
	return nil
}

// Retag gives machines a tag and takes it from others. It says how many of them MAAS has: it passes over ids that it does not know, and
// counts machines that had the tag already. For a tag with a definition, what is added does not last.
func (c *Client) Retag(ctx context.Context, tag string, add, remove []string) (added, removed int, err error) {
	if err := c.tagOK(tag); err != nil {
		return 0, 0, err
	}
	r := request{path: pathTags + tag + "/", op: "update_nodes", form: url.Values{"add": add, "remove": remove}}
	err = c.do(ctx, r, one(func(raw struct{ Added, Removed maybe[int] }) error {
		if raw.Added.v == nil || raw.Removed.v == nil {
			return errors.New("it does not say how many")
		}
		added, removed = *raw.Added.v, *raw.Removed.v
		return nil
	}))
	return added, removed, err
}

// Tagged has each take the machines that have a tag, as Machines does.
func (c *Client) Tagged(ctx context.Context, tag string, each func(Machine) error) error {
	if err := c.tagOK(tag); err != nil {
		return err
	}
	r := request{path: pathTags + tag + "/", op: "machines", time: listTime}
	return c.do(ctx, r, rows(rawMachine.machine, each))
}
