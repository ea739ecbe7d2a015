package alert

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/httpserver/post"
)

// message is what receivers are told. A webhook gets it as it is.
type message struct {
	Version int    `json:"version"`
	Key     string `json:"key"` // the same for each try, and for nothing else
	State   string `json:"state"`
	api.AlertFacts
	Nodes int    `json:"nodes"` // that it is about
	URL   string `json:"url"`
}

// pagePath is the console's page of alerts.
const pagePath = "/ui/alerts"

// message says what an alert is. The caller holds the lock.
func (d *Service) message(a *alert, state string) message {
	m := message{Version: 1, Key: a.ID + ":" + state, State: state, AlertFacts: d.says(a), Nodes: len(a.Members), URL: d.page()}
	if a.NodeID != "" {
		m.Nodes = 1
	}
	if state == Firing {
		m.ResolvedAt = nil
	}
	return m
}

// says is what an alert says, to whomever.
func (d *Service) says(a *alert) api.AlertFacts {
	c := d.table[a.Cause]
	name := a.NodeName
	if c.Fleet {
		name = a.Subject
	}
	return api.AlertFacts{ID: a.ID, Cause: a.Cause, Subject: a.Subject, Severity: a.Severity, Tenant: a.Tenant, Node: a.NodeName,
		NodeID: a.NodeID, Text: a.Text, Next: condition.About(name, cmp.Or(a.next, c.Next)), Topic: c.Topic,
		Since: a.Since.UTC(), FiredAt: a.FiredAt.UTC(),
		ResolvedAt: a.ResolvedAt}
}

func (d *Service) page() string {
	if at := d.URL(); at != "" {
		return strings.TrimSuffix(at, "/") + pagePath
	}
	return ""
}

// title is one line.
func (m *message) title() string {
	if m.State == Resolved {
		return "Resolved: " + m.Text
	}
	return m.Text
}

// render gives the address and the body of a request.
func (s *sealed) render(messages []message, now time.Time) (address string, body []byte, err error) {
	switch s.Kind {
	case KindWebhook:
		one := messages[0]
		one.Text = one.title()
		if one.State == Resolved {
			one.Next = ""
		}
		body, err = json.Marshal(one)
		return s.URL, body, err
	case KindSlack:
		body, err = json.Marshal(map[string]string{"text": slackText(&messages[0])})
		return s.URL, body, err
	case KindNtfy:
		return s.ntfy(&messages[0])
	}
	all := make([]amAlert, 0, len(messages))
	for i := range messages {
		all = append(all, alertmanagerOf(&messages[i], now))
	}
	body, err = json.Marshal(all)
	return alertsURL(s.URL), body, err
}

// slackText writes no link or mention that a node could have made: & < > are escaped, as Slack asks.
func slackText(m *message) string {
	safe := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	text := "*" + strings.ToUpper(m.Severity) + "* " + safe.Replace(m.title())
	if m.State == Firing {
		text += "\n" + safe.Replace(m.Next)
	}
	if m.URL != "" {
		text += "\n<" + m.URL + "|muster>"
	}
	return text
}

type ntfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Click    string   `json:"click,omitempty"`
}

// ntfy publishes as JSON, which takes every text: the topic is the last part of the URL's path.
func (s *sealed) ntfy(m *message) (address string, body []byte, err error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "", nil, &post.Error{Text: "the address of the receiver cannot be used", Next: "add the receiver again with a URL"}
	}
	n := ntfyMessage{Topic: path.Base(u.Path), Title: "muster: " + strings.ReplaceAll(m.Cause, "_", " "), Message: m.title(), Click: m.URL,
		Priority: s.Priority, Tags: []string{"warning"}}
	if m.State == Resolved {
		n.Tags = []string{"white_check_mark"}
	} else {
		n.Message += "\n" + m.Next
	}
	if n.Priority == 0 && m.Severity == wire.SeveritySevere && m.State == Firing {
		n.Priority = 4
	}
	u.Path = strings.TrimSuffix(path.Dir(strings.TrimSuffix(u.Path, "/")), "/") + "/"
	u.RawPath = ""
	body, err = json.Marshal(n)
	return u.String(), body, err
}

// amAlert is one alert as Alertmanager's API v2 takes it. Alerts with the same labels are the same.
type amAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// forgotten is when an Alertmanager takes an alert for resolved that it heard nothing more of.
const forgotten = 5 * time.Minute

func alertmanagerOf(m *message, now time.Time) amAlert {
	a := amAlert{Labels: map[string]string{"alertname": m.Cause, "severity": m.Severity, "source": "muster"}, StartsAt: m.Since,
		Annotations: map[string]string{"summary": m.Text, "description": m.Next}, EndsAt: now.Add(forgotten).UTC(), GeneratorURL: m.URL}
	for name, value := range map[string]string{"tenant": m.Tenant, "node": m.Node, "node_id": m.NodeID} {
		if value != "" {
			a.Labels[name] = value
		}
	}
	if m.NodeID == "" {
		a.Labels["subject"] = m.Subject
	}
	if m.ResolvedAt != nil {
		a.EndsAt = m.ResolvedAt.UTC()
	}
	if a.EndsAt.Before(a.StartsAt) { // it would be refused
		a.StartsAt = a.EndsAt
	}
	return a
}

// alertsURL is where an Alertmanager takes alerts, whether or not its URL says the path.
func alertsURL(base string) string {
	const api = "/api/v2/alerts"
	base = strings.TrimSuffix(base, "/")
	if strings.HasSuffix(base, api) {
		return base
	}
	return base + api
}
