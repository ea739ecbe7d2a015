package console

import (
	"fmt"
	"net/url"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

// sessionsOfPage is how many sessions that have ended a page has. Those that go on are all there.
const sessionsOfPage = 100

type sessionsPage struct {
	Running  []picture.SessionRow
	Ended    []picture.SessionRow
	Node     string
	Type     string
	Types    []wire.SessionType // that the account may look at
	Older    string             // URL; empty: this is the last page
	First    string             // URL; empty: this is it
	Filtered bool
}

// showSessions lists what goes on first. If the filter is refused, the page says so at the filter.
func (v *visit) showSessions() (page, error) {
	f := api.SessionFilter{Node: v.Asked("node"), Type: v.Asked("type"), Cursor: v.Asked("cursor"), Limit: sessionsOfPage}
	data := sessionsPage{Node: f.Node, Type: f.Type, Types: v.sessionTypes(), Filtered: f.Node+f.Type != ""}
	err := v.fillSessions(&data, f)
	return v.filtered(page{name: "sessions", title: "Sessions", section: "sessions", data: data}, data.Filtered, err)
}

func (v *visit) fillSessions(data *sessionsPage, f api.SessionFilter) error {
	if f.Cursor == "" {
		running, err := v.running(f.Node, f.Type)
		if err != nil {
			return err
		}
		data.Running = picture.SessionRowsOf(running, v.now)
	} else {
		data.First = v.with("cursor", "")
	}
	f.Status = api.SessionEnded
	list, err := get[api.SessionPage](v, f.Path(), f)
	if err != nil {
		return err
	}
	data.Ended = picture.SessionRowsOf(list.Sessions, v.now)
	if list.Next != "" {
		data.Older = v.with("cursor", list.Next)
	}
	return nil
}

// running are all sessions that go on or wait for their node, the newest first.
func (v *visit) running(node, kind string) ([]api.Session, error) {
	var all []api.Session
	seen := map[string]bool{} // one may begin between two questions
	for _, status := range []string{api.SessionWaiting, api.SessionOpen} {
		f := api.SessionFilter{Node: node, Type: kind, Status: status, Limit: 500}
		for more := true; more; more = f.Cursor != "" {
			list, err := get[api.SessionPage](v, f.Path(), f)
			if err != nil {
				return nil, err
			}
			for _, s := range list.Sessions {
				if !seen[s.ID] {
					all = append(all, s)
				}
				seen[s.ID] = true
			}
			f.Cursor = list.Next
		}
	}
	slices.SortStableFunc(all, func(a, b api.Session) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all, nil
}

// sessionTypes are those that the account may open, and look at.
func (v *visit) sessionTypes() []wire.SessionType {
	return slices.DeleteFunc(wire.SessionTypes(), func(t wire.SessionType) bool {
		return t.Opener == "" || v.may.Part(api.ScopeSessions, t.Opener) != nil
	})
}

type sessionPage struct {
	Session picture.SessionRow
	Params  string // empty: they are not shown
	Shell   bool
}

func (v *visit) showSession() (page, error) {
	s, err := get[api.Session](v, api.At(api.PathSession, v.r.PathValue("session")), nil)
	if err != nil {
		return page{}, err
	}
	data := sessionPage{Session: picture.SessionRowOf(s, v.now), Shell: s.Type == wire.SessionShell}
	if len(s.Params) > 0 && string(s.Params) != "null" {
		data.Params = indented(s.Params)
	}
	return page{name: "session", title: "Session " + s.ID, section: "sessions", data: data}, nil
}

// sessionPath is the page of a session.
func sessionPath(id string) string { return api.PathConsole + "sessions/" + url.PathEscape(id) }

// killSession ends a session, after the person has read what happens.
func (v *visit) killSession() (page, error) {
	s, err := get[api.Session](v, api.At(api.PathSession, v.r.PathValue("session")), nil)
	if err != nil {
		return page{}, err
	}
	ask := v.endQuestion(picture.SessionRowOf(s, v.now))
	return v.perform(deed{ask, "DELETE", api.At(api.PathNodeSession, s.NodeID, s.ID), nil}, "sessions")
}

func (v *visit) endQuestion(s picture.SessionRow) question {
	q := question{Title: fmt.Sprintf("End the %s of %s on %s?", s.Kind, picture.Dash(s.CreatedBy), s.Node), Button: "End the session",
		Danger: true, Back: sessionPath(s.ID)}
	q.Says = append(q.Says, fmt.Sprintf("%s opened it from %s, %s ago.", picture.Dash(s.CreatedBy), picture.Dash(s.Address), s.Took))
	if s.OpenedAt == nil {
		q.Says[0] = fmt.Sprintf("%s asked for it from %s. The node has not begun it yet.", picture.Dash(s.CreatedBy), picture.Dash(s.Address))
	}
	switch s.Type {
	case wire.SessionForward:
		q.Says = append(q.Says, "All of its connections end at once.")
	case wire.SessionCopy:
		q.Says = append(q.Says, "The copy stops. The same command goes on from there later.")
	default:
		q.Says = append(q.Says, "What runs in it on the node is told to end, and is killed five seconds later.")
	}
	q.Says = append(q.Says, "The person there learns that "+v.session.Account.Name+" has ended it.", "This cannot be undone.")
	if s.Recorded {
		q.Says = append(q.Says, "Its recording is kept.")
	}
	return q
}

type recordingPage struct {
	Session picture.SessionRow
	picture.Recording
	State   string
	Fault   string
	Earlier string // URLs; empty: there is nothing there
	Later   string
}

// mostBefore bounds the work for a part of a recording: it is read from its beginning.
const mostBefore = 10_000_000

// showRecording shows what the terminal showed, as text. The API puts on record that somebody has looked.
func (v *visit) showRecording() (page, error) {
	ctx := v.r.Context()
	from := v.Count("from", 0, mostBefore)
	s, err := get[api.Session](v, api.At(api.PathSession, v.r.PathValue("session")), nil)
	if err != nil {
		return page{}, err
	}
	cast, state, err := v.api.OpenRecording(ctx, s.ID)
	if err != nil {
		return page{}, err
	}
	defer cast.Close()
	data := recordingPage{Session: picture.SessionRowOf(s, v.now), State: state}
	if data.Recording, err = picture.RecordingOf(cast, from, ctx.Err); err != nil {
		return page{}, err
	}
	if data.Recording.Fault != nil {
		data.Fault = picture.Drawn(data.Recording.Fault.Error())
	}
	if from > 0 {
		data.Earlier = v.with("from", fmt.Sprint(max(from-picture.RecordingLines, 0)))
	}
	if data.More {
		data.Later = v.with("from", fmt.Sprint(from+len(data.Lines)))
	}
	return page{name: "recording", title: "Recording " + s.ID, section: "sessions", data: data}, nil
}

// nodeSessions adds those with the node: all that go on, and some that have ended.
func (v *visit) nodeSessions(data *nodePage) error {
	all, err := v.running(data.Node.ID, "")
	if err != nil {
		return err
	}
	f := api.SessionFilter{Node: data.Node.ID, Status: api.SessionEnded, Limit: sessionsOfNode}
	list, err := get[api.SessionPage](v, f.Path(), f)
	data.Sessions = picture.SessionRowsOf(append(all, list.Sessions...), v.now)
	return err
}
