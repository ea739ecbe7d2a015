package console

import (
	"fmt"
	"net/url"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
	"muster/store/releases"
)

type releasesPage struct {
	Channels []api.Channel
	Denied   bool // this account may not look at channels
	Releases []api.Release
}

func (v *visit) showReleases() (page, error) {
	known, err := get[api.ReleaseList](v, api.PathReleases, nil)
	if err != nil {
		return page{}, err
	}
	channels, err := get[api.ChannelList](v, api.PathChannels, nil)
	data := releasesPage{Channels: channels.Channels, Denied: forbidden(err), Releases: known.Releases}
	if data.Denied {
		err = nil
	}
	return page{name: "releases", title: "Releases", section: "releases", data: data}, err
}

type channelPage struct {
	Channel  api.Channel
	Releases []api.Release
	Nodes    api.ChannelNodes
	Counts   []picture.Count
	More     string // URL; empty: this is the last page
	State    string // filter
	CanPause bool
	CanGoOn  bool
	CanAbort bool
}

func (v *visit) showChannel() (page, error) {
	name := v.r.PathValue("channel")
	c, err := get[api.Channel](v, api.At(api.PathChannel, name), nil)
	if err != nil {
		return page{}, err
	}
	known, err := get[api.ReleaseList](v, api.PathReleases, nil)
	if err != nil {
		return page{}, err
	}
	nodes, err := get[api.ChannelNodes](v, api.At(api.PathChannelNodes, name),
		api.ChannelNodeFilter{State: v.Asked("state"), Cursor: v.Asked("cursor"), Limit: 100})
	if err != nil {
		return page{}, err
	}
	data := channelPage{Channel: c, Releases: known.Releases, Nodes: nodes, Counts: picture.CountsOf(c.Counts), State: v.Asked("state"),
		CanPause: c.State == releases.Running, CanGoOn: c.State == releases.Paused || c.State == releases.Halted,
		CanAbort: c.State == releases.Running || c.State == releases.Paused || c.State == releases.Halted}
	if nodes.Next != "" {
		data.More = v.with("cursor", nodes.Next)
	}
	return page{name: "channel", title: "Channel " + c.Channel, section: "releases", data: data}, nil
}

// steerChannel moves a channel or its rollout, after the person has read what happens.
func (v *visit) steerChannel() (page, error) {
	name := v.r.PathValue("channel")
	s, err := v.steering(name)
	if err != nil {
		return page{}, err
	}
	s.Back = api.PathConsole + "channels/" + url.PathEscape(name)
	return v.perform(s, "releases")
}

// channelOrList is the page of the channel, or the list where the channel has never been pointed at anything.
func (v *visit) channelOrList() (page, error) {
	if shown, err := v.showChannel(); err == nil {
		return shown, nil
	}
	return v.showReleases()
}

// seenSequence is the number of the channel on the page that the person looked at; 0: the page did not show a channel. So nobody steers
// another rollout than the one that was seen.
func (v *visit) seenSequence() int64 {
	seen, _ := strconv.ParseInt(v.field("seen"), 10, 64)
	return seen
}

// noWindow says what holds nobody back who goes back.
const noWindow = " Maintenance windows do not hold them back."

func (v *visit) steering(name string) (deed, error) {
	var path string
	var body any
	var q question
	switch verb := v.r.PathValue("verb"); verb {
	case "promote":
		return v.promotion(name)
	case "rollback":
		path = api.PathChannelRollback
		body = api.Promotion{Seen: v.seenSequence()}
		q = question{Title: "Roll " + name + " back?", Button: "Roll back " + name, Danger: true,
			Says: []string{"The channel points at the release before the present one.", "All of its nodes get that release at once." + noWindow}}
	case "abort":
		path = api.PathChannelAbort
		body = api.Promotion{Seen: v.seenSequence()}
		q = question{Title: "Abort the rollout on " + name + "?", Button: "Abort the rollout", Danger: true,
			Says: []string{"The rollout ends.", "Nodes that have its release already go back to the one before." + noWindow,
				"Aborting cannot be undone: a new promotion starts from the first wave."}}
	case "pause":
		path = api.PathChannelPause
		q = question{Title: "Pause the rollout on " + name + "?", Button: "Pause",
			Says: []string{"No further node gets the release until somebody resumes the rollout.", "Nodes that were let in go on."}}
	case "resume":
		path = api.PathChannelResume
		q = question{Title: "Resume the rollout on " + name + "?", Button: "Resume",
			Says: []string{"The rollout goes on with its present wave.", "Nodes that have failed so far are accepted, and do not halt it again."}}
	default:
		return deed{}, wire.Refuse(wire.CodeNotFound, "a channel cannot do this", "promote, pause, resume, abort or roll back")
	}
	return deed{q, "POST", api.At(path, name), body}, nil
}

// promotion points the channel at a release. How many nodes it concerns is said before it happens.
func (v *visit) promotion(name string) (deed, error) {
	digest := v.field("digest")
	if digest == "" {
		return deed{}, wire.Refuse(wire.CodeBadRequest, "no release was chosen", "choose one from the list")
	}
	release, err := get[api.Release](v, api.At(api.PathRelease, digest), nil)
	if err != nil {
		return deed{}, err
	}
	p := api.Promotion{Digest: digest, Seen: v.seenSequence()}
	how := "They get it in waves, which stop by themselves when nodes fail."
	if v.field("wave") == "all" {
		p.Wave = api.AllAtOnce()
		how = "All of them get it at once, without waves."
	}
	c, err := get[api.Channel](v, api.At(api.PathChannel, name), nil)
	if err != nil && !refusedBy(err, wire.CodeChannelUnknown) {
		return deed{}, err
	}
	says := []string{fmt.Sprintf("The channel %s points at version %s (%s).", name, release.Version, picture.Short(release.Digest)),
		fmt.Sprintf("It has %d nodes now. ", c.Counts.Nodes) + how}
	ask := question{Title: "Promote " + release.Version + " to " + name + "?", Button: "Promote " + release.Version, Says: says}
	return deed{ask, "PATCH", api.At(api.PathChannel, name), p}, nil
}
