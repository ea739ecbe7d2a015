// Package help holds the pages of `muster help TOPIC`, and puts a page on a screen.
//
// A page is Markdown. It begins with a heading that says its name and what it is about: "# joining: join a machine".
package help

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.md
var pages embed.FS

// Topic is one page.
type Topic struct {
	Name    string
	Summary string // what the page is about, in one line
}

// Kind is what a page is for.
type Kind int

// The kinds of pages, in the order in which they are listed.
const (
	Guide   Kind = iota // how one thing is done, from its first command to its last
	Subject             // a part of muster, with its rules
	Runbook             // what to do when something is wrong
)

// String heads a list of such pages.
func (k Kind) String() string {
	return [...]string{"One task each", "One part of muster each", "When something is wrong"}[k]
}

// guides are the pages about one task each.
func guides() []string {
	return []string{"quickstart", "first-job", "colleague", "phone", "nginx", "restore"}
}

// subjects are the pages about one part of muster, in the order in which a newcomer needs them.
func subjects() []string {
	return []string{"joining", "bootstrap", "fleet", "console", "gpus", "health", "alerts", "conditions", "history", "metrics", "logs",
		"tasks", "sessions", "placement", "providers", "maas",
		"accounts", "audit-log", "certificates", "step-ca", "proxies", "releases", "registry", "settings", "backup", "standby", "upgrades",
		"security", "protocol"}
}

// runbooks are the pages about one symptom.
func runbooks() []string {
	return []string{"not-joining", "identity-trouble", "no-telemetry", "stale-node", "fleet-silent", "tasks-not-pulled", "updates-failing",
		"lost-gateway",
		"images", "lab-down"}
}

// List is the pages of one kind.
type List struct {
	Kind   Kind
	Topics []Topic
}

// Lists returns all the pages, by their kinds.
func Lists() []List {
	var lists []List
	for kind, names := range [][]string{Guide: guides(), Subject: subjects(), Runbook: runbooks()} {
		l := List{Kind: Kind(kind)}
		for _, name := range names {
			first, _, _ := strings.Cut(Text(name), "\n")
			_, summary, _ := strings.Cut(first, ": ")
			l.Topics = append(l.Topics, Topic{Name: name, Summary: summary})
		}
		lists = append(lists, l)
	}
	return lists
}

// Topics returns all the pages.
func Topics() []Topic {
	var topics []Topic
	for _, l := range Lists() {
		topics = append(topics, l.Topics...)
	}
	return topics
}

// Names returns the names of all the pages.
func Names() []string { return slices.Concat(guides(), subjects(), runbooks()) }

// Text returns the Markdown of a page, "" if there is no such page.
func Text(name string) string {
	if !slices.Contains(Names(), name) {
		return ""
	}
	text, err := pages.ReadFile(name + ".md")
	if err != nil { // a test keeps names and files together
		return ""
	}
	return string(text)
}
