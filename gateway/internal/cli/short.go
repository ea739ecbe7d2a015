package cli

import (
	"cmp"
	"slices"
	"strings"
)

// Word is a word that people type first, and the command that it stands for.
type Word struct {
	Word, Command string
	Later         bool // it stands in the list of all commands, and not among the first
}

// Shorten puts the commands of these words before all others, in this order. If Later is set, the command stays in its place, and the word
// stands behind it. A word that is not the command's own name becomes a second path to it: the same command, which names itself as it was
// typed.
func Shorten(words []Word, all []Command) []Command {
	all = slices.Clone(all)
	var first []Command
	for _, w := range words {
		at := slices.IndexFunc(all, func(c Command) bool { return c.Name == w.Command })
		if at < 0 {
			continue
		}
		c := all[at]
		if w.Later {
			c.shorten(w.Word)
			all = slices.Insert(all, at+1, c)
			continue
		}
		c.First = true
		if c.Name == w.Word {
			all = slices.Delete(all, at, at+1)
		} else {
			c.shorten(w.Word)
		}
		first = append(first, c)
	}
	return append(first, all...)
}

// shorten gives a command a second path. Its examples go that way too.
func (c *Command) shorten(word string) {
	c.For = c.Name
	c.Name = word
	c.Examples = slices.Clone(c.Examples)
	for i := range c.Examples {
		c.Examples[i] = strings.ReplaceAll(c.Examples[i], "muster "+c.For, "muster "+word)
	}
}

// otherPaths says how else a command can be typed; empty: there is no other way.
func (all catalog) otherPaths(c *Command) string {
	var paths []string
	for i := range all {
		if all[i].Name != c.Name && all[i].full() == c.full() {
			paths = append(paths, "muster "+all[i].Name)
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return "The same: " + strings.Join(paths, ", ") + "."
}

// full is the command's own name, whatever was typed.
func (c *Command) full() string { return cmp.Or(c.For, c.Name) }
