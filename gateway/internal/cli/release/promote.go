package release

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// channelOf is the channel that a command is about.
func channelOf(s *cli.Session) (string, error) {
	o := struct{ Channel string }{wire.DefaultChannel}
	if err := s.Flags.Into(&o); err != nil {
		return "", err
	}
	return o.Channel, wire.CheckChannel(o.Channel) // --channel "" is refused: a script whose variable is empty means no channel
}

// releasePromote points a channel at a release. The one that it points at already is ordered anew: nodes on which it failed try it again,
// and a pointer that ends is replaced.
func releasePromote(ctx context.Context, s *cli.Session) error {
	wave, err := wavesOf(s, nil)
	if err != nil {
		return err
	}
	return move(ctx, s, wave, func(now api.Channel) (order, error) {
		r, err := cli.Get[api.Release](ctx, s, api.At(api.PathRelease, s.Words[0]), nil)
		if err != nil {
			return order{}, err
		}
		o := order{verb: "point the channel " + now.Channel + " at", release: r, method: "PATCH", path: api.PathChannel}
		if r.Digest == now.Digest {
			o.verb = "order anew on the channel " + now.Channel
		}
		return o, nil
	})
}

// releaseRollback points a channel at its previous release, or at the one of --digest, at once unless waves are asked for.
func releaseRollback(ctx context.Context, s *cli.Session) error {
	wave, err := wavesOf(s, api.AllAtOnce())
	if err != nil {
		return err
	}
	return move(ctx, s, wave, func(now api.Channel) (order, error) {
		digest := s.Flags.Text("digest")
		before, err := wayBack(ctx, s, now, digest)
		if err != nil {
			return order{}, err
		}
		way := fmt.Sprintf("%s (%s) to", now.Version, short(now.Digest))
		fmt.Fprintf(s.Stderr, "Rollback of the channel %s: from %s %s (%s).\n", now.Channel, screen.Printable(way), screen.Printable(before.Version),
			short(before.Digest))
		return order{verb: "take the channel " + now.Channel + " from " + way, release: before, when: wavesText(wave) + noWindow,
			method: "POST", path: api.PathChannelRollback, unnamed: digest == ""}, nil
	})
}

// noWindow says what holds nobody back who goes back.
const noWindow = " Maintenance windows do not hold them back."

// wayBack is the release that a channel goes back to: the one before, or the one that a person has named.
func wayBack(ctx context.Context, s *cli.Session, now api.Channel, to string) (api.Release, error) {
	if to == "" {
		return previous(ctx, s, now)
	}
	return cli.Get[api.Release](ctx, s, api.At(api.PathRelease, to), nil)
}

// previous is the release that a channel would go back to.
func previous(ctx context.Context, s *cli.Session, now api.Channel) (api.Release, error) {
	if now.Previous == "" {
		return api.Release{}, cli.Hinted(fmt.Sprintf("the channel %s has no release before the present one", now.Channel),
			"muster release ls shows all releases; muster release promote DIGEST --channel "+now.Channel+" points it at one")
	}
	return cli.Get[api.Release](ctx, s, api.At(api.PathRelease, now.Previous), nil)
}

// order is a change of a channel.
type order struct {
	verb    string // with the channel: "point the channel stable at"
	release api.Release
	when    string // who gets it when, for a person
	method  string
	path    string
	unnamed bool // the gateway itself knows the previous release, and whether it is good to go back to
}

// move asks, gets the pointer signed where an operator signs, and changes the channel.
func move(ctx context.Context, s *cli.Session, wave json.RawMessage, plan func(api.Channel) (order, error)) error {
	name, err := channelOf(s)
	if err != nil {
		return err
	}
	now, err := cli.Get[api.Channel](ctx, s, api.At(api.PathChannel, name), nil)
	if err != nil && cli.Code(err) != wire.CodeChannelUnknown { // nothing was ever promoted to it
		return err
	}
	now.Channel = name
	o, err := plan(now)
	if err != nil {
		return err
	}
	deed := fmt.Sprintf("%s %s (%s)", o.verb, o.release.Version, short(o.release.Digest))
	if err := s.Agree(deed+": "+consequence(now, cmp.Or(o.when, wavesText(wave))), deed); err != nil {
		return err
	}
	pointer, err := pointerOf(ctx, s, name, o.release.Digest)
	if err != nil {
		return err
	}
	p := api.Promotion{Digest: o.release.Digest, Wave: wave, Pointer: pointer, Seen: now.Sequence}
	if o.unnamed {
		p.Digest = ""
	}
	after, err := cli.Send[api.Channel](ctx, s, o.method, api.At(o.path, name), p)
	if err != nil {
		return wanted(err, name, o.release.Digest)
	}
	var f struct{ Watch bool }
	err = s.Flags.Into(&f)
	switch {
	case err != nil:
		return err
	case f.Watch:
		return showStatus(ctx, s, name, true)
	case s.Form == cli.FormJSON:
		return s.WriteJSON(after)
	}
	said(s, after)
	return nil
}

// wanted adds how to sign where the gateway has no key for it.
func wanted(err error, channel, digest string) error {
	var detail *wire.ErrorDetail
	if !errors.As(err, &detail) || detail.Code != wire.CodeSignatureWanted {
		return err
	}
	return cli.Hinted(detail.Message, fmt.Sprintf("add --key FILE; or sign elsewhere: muster release sign --channel %s --digest %s",
		channel, digest))
}

// consequence says what a change will do to how many nodes.
func consequence(now api.Channel, when string) string {
	if now.Digest == "" {
		return "nothing was promoted there yet, and each node that follows it gets the release"
	}
	nodes := screen.Plural(now.Counts.Nodes-now.Counts.Pinned, "node")
	if now.Counts.Pinned > 0 {
		nodes += fmt.Sprintf(", %d more are pinned", now.Counts.Pinned)
	}
	text := fmt.Sprintf("%s; now it has %s. %s", nodes, now.Version, when)
	if open(now) {
		text += fmt.Sprintf(" The rollout of %s, which is %s, ends", now.Version, now.State)
	}
	return text
}

// open tells whether a channel has a rollout that a change would end.
func open(now api.Channel) bool {
	return now.State == stateRunning || now.State == statePaused || now.State == stateHalted
}

// said tells what became of a change.
func said(s *cli.Session, now api.Channel) {
	if now.Note != "" {
		fmt.Fprintf(s.Stderr, "Note: %s.\n", screen.Printable(now.Note))
	}
	s.Printf("The channel %s points at %s (%s), number %d. %s\n", now.Channel, now.Version, short(now.Digest), now.Sequence, progressOf(now))
	if now.Counts.Nodes == 0 && now.Channel != wire.DefaultChannel { // a node without a label follows that one
		s.Printf("No node follows this channel yet: muster node label NODE channel=%s\n", now.Channel)
		return
	}
	if now.State == stateRunning {
		s.Printf("muster release status --channel %s --watch shows how it goes.\n", now.Channel)
	}
}

// releasePause, releaseResume and releaseAbort steer a rollout.
func releasePause(ctx context.Context, s *cli.Session) error {
	return steer(ctx, s, api.PathChannelPause)
}

func releaseResume(ctx context.Context, s *cli.Session) error {
	return steer(ctx, s, api.PathChannelResume)
}

func steer(ctx context.Context, s *cli.Session, path string) error {
	name, err := channelOf(s)
	if err != nil {
		return err
	}
	return cli.Show(ctx, s, http.MethodPost, api.At(path, name), nil, func(now api.Channel) { said(s, now) })
}

func releaseAbort(ctx context.Context, s *cli.Session) error {
	return move(ctx, s, nil, func(now api.Channel) (order, error) {
		if now.State != "" && !open(now) {
			return order{}, cli.Hinted(fmt.Sprintf("the rollout of %s on the channel %s is %s: there is nothing to end", now.Version, now.Channel,
				now.State), "to take its nodes back: muster release rollback --channel "+now.Channel)
		}
		o := order{verb: "end the rollout on the channel " + now.Channel + ", which has no release before", method: "POST",
			path: api.PathChannelAbort, release: api.Release{Digest: now.Digest, Version: now.Version}, when: "The nodes that have it keep it."}
		if now.Previous == "" {
			return o, nil
		}
		var err error
		o.release, err = previous(ctx, s, now)
		o.verb = fmt.Sprintf("end the rollout of %s on the channel %s, and give the nodes that have it", now.Version, now.Channel)
		o.when = "They get it at once." + noWindow
		return o, err
	})
}

// wavesOf are the waves that the flags ask for; usual if there are none.
func wavesOf(s *cli.Session, usual json.RawMessage) (json.RawMessage, error) {
	var w api.Waves
	var o struct{ Now bool }
	err := errors.Join(s.Flags.Into(&o), s.Flags.Into(&w))
	if err == nil {
		w.SoakSeconds, err = soakOf(s)
	}
	if err != nil {
		return nil, err
	}
	asked := w.Canary != "" || len(w.Steps) > 0 || w.MaxFailed != "" || w.SoakSeconds != nil
	switch {
	case o.Now && !asked && w.GoBack:
		return encode(atOnce()), nil
	case o.Now && asked:
		return nil, cli.Usagef("leave --now or the others out",
			"--now lets all nodes in at once, and --canary, --steps, --soak and --max-failed say how to wait")
	case o.Now:
		return api.AllAtOnce(), nil
	case !asked && !w.GoBack:
		return usual, nil
	}
	return complete(w), nil
}

// soakOf is how long a wave must have been well, in seconds; nil: the flag is not given. Without a unit, 0 is a duration too.
func soakOf(s *cli.Session) (*int, error) {
	var o struct {
		Soak time.Duration `flag:"soak,seconds"`
	}
	switch s.Flags.Text("soak") {
	case "":
		return nil, nil
	case "0", "0s":
		return new(int), nil
	}
	err := s.Flags.Into(&o)
	seconds := int(o.Soak.Seconds())
	return &seconds, err
}

// complete fills in the usual first wave where the flags name waves and no canary; --canary 0 is for none.
func complete(w api.Waves) json.RawMessage {
	if w.Canary == "" {
		w.Canary = usualCanary
	}
	if w.Canary == "0" {
		w.Canary = ""
	}
	if len(w.Steps) == 0 {
		w.Steps = []string{wholeFleet}
	}
	return encode(w)
}

// atOnce are the waves of --now with --go-back: there is one, and nobody waits for it.
func atOnce() api.Waves {
	soak := 0
	return api.Waves{Steps: []string{wholeFleet}, SoakSeconds: &soak, GoBack: true}
}

// Usual waves, which the gateway has too.
const (
	usualCanary = "1"
	wholeFleet  = "100%"
)

// wavesText says the waves in words.
func wavesText(wave json.RawMessage) string {
	if string(wave) == string(api.AllAtOnce()) {
		return "All nodes get it at once."
	}
	var w api.Waves
	if len(wave) == 0 || json.Unmarshal(wave, &w) != nil {
		return "One node gets it first, and the others when that one has been well for ten minutes (--now: all at once)."
	}
	waves := w.Steps
	if w.Canary != "" {
		waves = append([]string{w.Canary}, waves...)
	}
	text := "The waves are " + strings.Join(waves, ", ") + "."
	if w.GoBack {
		text += " Where too many fail, the nodes go back by themselves."
	}
	return text
}
