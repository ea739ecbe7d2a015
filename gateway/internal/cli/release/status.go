package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// States of a rollout.
const (
	stateRunning   = "running"
	statePaused    = "paused"
	stateHalted    = "halted"
	stateAborted   = "aborted"
	stateTakenBack = "taken_back"
	stateBehind    = "behind" // a restore has left the channel behind its nodes
)

// States of a node in a rollout, of which more is said than the word.
const (
	nodeRunning = "running"
	nodeOffline = "offline"
	nodeSilent  = "silent"
)

const (
	watchPause  = 2 * time.Second
	shownFailed = 20 // nodes with their logs
	shownLog    = 10 // lines of one log
)

// view is a channel with its nodes, as -o json prints it.
type view struct {
	api.Channel
	Nodes []api.ChannelNode `json:"nodes"`
}
type releaseStatusFlags struct {
	Watch   bool
	Channel string
}

func releaseStatus(ctx context.Context, s *cli.Session, o releaseStatusFlags) error {
	if o.Channel == "" && !o.Watch {
		return allChannels(ctx, s)
	}
	name, err := channelOf(s)
	if err != nil {
		return err
	}
	return showStatus(ctx, s, name, o.Watch)
}

// showStatus shows a channel. With watch it shows first how its rollout goes, and fails if that does not end well.
func showStatus(ctx context.Context, s *cli.Session, name string, watch bool) error {
	if watch {
		if err := follow(ctx, s, name); err != nil {
			return err
		}
	}
	now, err := look(ctx, s, name)
	if err != nil {
		return err
	}
	if err := show(s, now); err != nil {
		return err
	}
	if watch && slices.Contains([]string{stateHalted, stateAborted, stateTakenBack, stateBehind}, now.State) {
		return cli.ErrReported
	}
	return nil
}

// allChannels shows a line for each channel, or all of it where there is one only.
func allChannels(ctx context.Context, s *cli.Session) error {
	list, err := cli.Get[api.ChannelList](ctx, s, api.PathChannels, nil)
	switch {
	case err != nil:
		return err
	case s.Form == cli.FormJSON:
		return s.WriteJSON(list)
	case len(list.Channels) == 0:
		return cli.Hinted("there is no channel yet", "muster release promote DIGEST --channel "+wire.DefaultChannel+" makes one")
	case len(list.Channels) == 1:
		now, err := look(ctx, s, list.Channels[0].Channel)
		if err != nil {
			return err
		}
		return show(s, now)
	}
	columns := []screen.Column{{Name: "CHANNEL", Least: 8}, {Name: "VERSION", Least: 8, Most: 40}, {Name: "DIGEST", Rank: 3},
		{Name: "ROLLOUT"}, {Name: "WAVE", Rank: 1}, {Name: "NODES"}, {Name: "RUN IT"}, {Name: "FAILED"},
		{Name: "WHY", Rank: 2, Least: 12, Most: 60}}
	return s.List(columns).Write(cli.Rows(list.Channels, func(n api.Channel) []string {
		failed := n.Counts.Failed + n.Counts.Silent + n.Counts.Late + n.Counts.Unwell
		return []string{n.Channel, n.Version, short(n.Digest), n.State, waveOf(n), fmt.Sprint(n.Counts.Nodes), fmt.Sprint(n.Counts.Running),
			fmt.Sprint(failed), n.Why}
	}))
}

func look(ctx context.Context, s *cli.Session, name string) (view, error) {
	now, err := cli.Get[api.Channel](ctx, s, api.At(api.PathChannel, name), nil)
	if err != nil {
		return view{}, err
	}
	nodes, _, err := cli.Gather(0, func(limit int, cursor string) ([]api.ChannelNode, string, error) {
		page, err := cli.Get[api.ChannelNodes](ctx, s, api.At(api.PathChannelNodes, name), api.ChannelNodeFilter{Limit: limit, Cursor: cursor})
		return page.Nodes, page.Next, err
	})
	return view{Channel: now, Nodes: nodes}, err
}

// follow prints a line whenever something has changed, until the rollout is not running any more. A paused one may go on, and one may wait
// for maintenance windows for days. It fails if somebody points the channel elsewhere meanwhile: that is another rollout.
func follow(ctx context.Context, s *cli.Session, name string) error {
	begun, err := cli.Get[api.Channel](ctx, s, api.At(api.PathChannel, name), nil)
	if err != nil {
		return err
	}
	last := ""
	now, err := cli.Await(ctx, s, api.At(api.PathChannel, name), watchPause, begun, func(now api.Channel) bool {
		if line := progressOf(now); line != last && now.Digest == begun.Digest {
			fmt.Fprintf(s.Stderr, "%s %s\n", s.Now().UTC().Format(time.TimeOnly), screen.Printable(line))
			last = line
		}
		return now.Digest != begun.Digest || now.State != stateRunning && now.State != statePaused
	})
	if err == nil && now.Digest != begun.Digest {
		err = cli.Hinted(fmt.Sprintf("the rollout of %s was ended: the channel %s points at %s now", short(begun.Digest), name,
			screen.Printable(now.Version)), "muster release status --channel "+name+" --watch shows how that goes")
	}
	return err
}

// progressOf says in a line where a rollout stands.
func progressOf(n api.Channel) string {
	if n.State == "" {
		return "There is no rollout."
	}
	text := "Rollout " + n.State
	if wave := waveOf(n); wave != screen.Unknown && n.State != stateAborted && n.State != stateTakenBack {
		text += ", wave " + wave
	}
	text += ": " + countsText(n.Counts)
	if n.NextAt != nil {
		text += "; this wave is watched, and the next one begins at " + n.NextAt.UTC().Format(time.TimeOnly)
	}
	if n.Why != "" {
		text += "; " + n.Why
	}
	return text + "."
}

func waveOf(n api.Channel) string {
	if n.Wave == 0 {
		return screen.Unknown
	}
	return fmt.Sprintf("%d of %d", n.Wave, n.Waves)
}

// countsText names what is not zero.
func countsText(n api.RolloutCounts) string {
	text := fmt.Sprintf("%d of %s on it", n.Running, screen.Plural(n.Nodes, "node"))
	for _, part := range []struct {
		number int
		word   string
	}{{n.Admitted, "at it"}, {n.Waiting, "waiting"}, {n.Failed, "failed"}, {n.Silent, "silent"}, {n.Late, "late"}, {n.Unwell, "not well"},
		{n.Held, "held by their window"}, {n.Pinned, "pinned"}, {n.Offline, "offline"}, {n.Unable, "unable to update"}} {
		if part.number > 0 {
			text += fmt.Sprintf(", %d %s", part.number, part.word)
		}
	}
	return text
}

func show(s *cli.Session, v view) error {
	if s.Form == cli.FormJSON {
		return s.WriteJSON(v)
	}
	rows := [][]string{
		{"channel", v.Channel.Channel},
		{"release", screen.OrUnknown(v.Version) + ", " + screen.OrUnknown(v.Digest)},
		{"pointer", fmt.Sprintf("number %d, signed by %s, expires %s", v.Sequence, screen.OrUnknown(v.SignedBy),
			screen.When(s.Now(), v.Expires))},
		{"changed", screen.Ago(s.Now(), v.UpdatedAt) + " by " + screen.OrUnknown(v.UpdatedBy)},
		{"rollout", stateLine(s.Now(), v.Channel)},
		{"nodes", countsText(v.Counts)},
	}
	if next := afterSilence(v); next != "" {
		rows = append(rows, []string{"next", next})
	}
	if v.ToSign != "" {
		rows = append(rows, []string{"to sign", v.ToSign})
	}
	screen.Pairs(s.Stdout, s.Screen(), rows)
	showNodes(s, v)
	return nil
}

// afterSilence says what to do about nodes that were let in and are not heard: the rollout waits for them, or was halted by them.
func afterSilence(v view) string {
	if !slices.Contains([]string{stateRunning, statePaused, stateHalted}, v.State) {
		return ""
	}
	var names []string
	for _, n := range v.Nodes {
		if n.Wave > 0 && (n.State == nodeOffline || n.State == nodeSilent) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	text := names[0] + " has its turn and is not heard"
	if more := len(names) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	text += ": start it again, or, if it is gone for good, muster node retire " + names[0]
	if v.State == stateHalted {
		text += "; then muster release resume --channel " + v.Channel.Channel
	}
	return text
}

func stateLine(now time.Time, n api.Channel) string {
	if n.State == "" {
		return "none"
	}
	text := n.State
	if n.Wave > 0 {
		text += ", wave " + waveOf(n)
	}
	if n.NextAt != nil {
		text += ": it is watched, and the next one begins " + screen.When(now, *n.NextAt)
	}
	if n.Why != "" {
		text += ": " + n.Why
	}
	return screen.Printable(text)
}

// showNodes lists the nodes that are not through, those first that were let in; -o wide lists all. What failed comes with its last lines.
func showNodes(s *cli.Session, v view) {
	columns := []screen.Column{{Name: "NODE", Least: 12, Most: 40}, {Name: "WAVE", Rank: 2}, {Name: "STATE"}, {Name: "PHASE", Rank: 1},
		{Name: "SINCE", Rank: 3}, {Name: "WHY", Least: 16, Most: 100}}
	var rows [][]string
	var failed []api.ChannelNode
	nodes := slices.Clone(v.Nodes)
	if s.Form != cli.FormWide {
		slices.SortStableFunc(nodes, func(a, b api.ChannelNode) int { return cmp.Compare(min(b.Wave, 1), min(a.Wave, 1)) })
	}
	for _, n := range nodes {
		if n.Log != "" {
			failed = append(failed, n)
		}
		if s.Form == cli.FormWide || telling(n) || v.NextAt != nil && n.Wave == v.Wave { // these are watched
			rows = append(rows, nodeRow(s, n))
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.Stdout)
		_ = s.List(columns).Write(rows)
	}
	for _, n := range failed[:min(len(failed), shownFailed)] {
		fmt.Fprintf(s.Stdout, "\nlast lines of %s on %s:\n%s", screen.OrUnknown(v.Version), screen.OrUnknown(n.Name), tail(n.Log))
	}
	if more := len(failed) - shownFailed; more > 0 {
		fmt.Fprintf(s.Stdout, "\n%s more with a log; -o json has all\n", screen.Plural(more, "node"))
	}
}

// telling tells whether a person wants to see a node in the short list.
func telling(n api.ChannelNode) bool {
	return n.State != nodeRunning || n.Code != "" || n.Held != "" || n.Phase != "" && n.Phase != wire.UpdateCommitted
}

func nodeRow(s *cli.Session, n api.ChannelNode) []string {
	wave := screen.Unknown
	if n.Wave > 0 {
		wave = fmt.Sprint(n.Wave)
	}
	return []string{n.Name, wave, n.State, n.Phase, screen.Since(s.Now(), n.At), reason(n)}
}

// reason says in one line why a node does not have the release.
func reason(n api.ChannelNode) string {
	parts := []string{}
	for _, part := range []string{n.Code, n.Detail, n.Held} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// tail is the end of a log, for a terminal. If a panic stands further up, it is that: its first line says what it is about, and where it
// happened takes many more.
func tail(log string) string {
	lines := strings.Split(strings.TrimRight(log, "\r\n"), "\n")
	from := max(len(lines)-shownLog, 0)
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			from = min(from, i)
			break
		}
	}
	var out strings.Builder
	for _, line := range lines[from:min(from+shownLog, len(lines))] {
		out.WriteString("  " + screen.Printable(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", "    ")) + "\n")
	}
	return out.String()
}
