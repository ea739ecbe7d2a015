package console

import (
	"fmt"
	"html/template"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/console/markdown"
)

type topicPage struct {
	Lists  []help.List
	Topics []help.Topic
	Name   string
	Text   template.HTML
}

func (v *visit) showTopics() (page, error) {
	return page{name: "topics", title: "Help", section: "help", data: topicPage{Lists: help.Lists()}}, nil
}

func (v *visit) showTopic() (page, error) {
	name := v.r.PathValue("topic")
	text := help.Text(name)
	if text == "" {
		return page{}, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no topic %.40q", name), "take one from the list of topics")
	}
	return page{name: "topic", title: name, section: "help",
		data: topicPage{Topics: help.Topics(), Name: name, Text: markdown.HTML(text, topicPath)}}, nil
}

// topicPath leads from a command that shows a topic to the topic here.
func topicPath(code string) string {
	name, ok := strings.CutPrefix(code, "muster help ")
	if !ok || help.Text(name) == "" {
		return ""
	}
	return api.PathConsole + "help/" + name
}
