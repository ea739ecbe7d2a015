package placement

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// none is what stands for no profile and no quota, also in what a person writes.
const none = "none"

func profilePush(ctx context.Context, s *cli.Session) error {
	raw, err := s.ReadFile(s.Words[0])
	switch {
	case err != nil:
		return fmt.Errorf("read the profile: %w", err)
	case !json.Valid(raw):
		return cli.Hinted(s.Words[0]+" is no JSON",
			"muster profile show "+api.ProfileContainer+" -o json prints a profile to begin with; muster help placement says what stands in one")
	}
	return cli.Show(ctx, s, http.MethodPost, api.PathProfiles, json.RawMessage(raw), func(p api.Profile) {
		s.Printf("%s: %s, %s\n", p.Name, screen.Plural(len(p.Checks), "check"), gives(p.Slots))
		s.Printf("muster profile assign %s NODE... gives it to nodes; %s now.\n", p.Name, has(p.Nodes))
	})
}

func has(nodes int) string {
	if nodes == 1 {
		return "1 node has it"
	}
	return fmt.Sprintf("%d nodes have it", nodes)
}

// gives says which slots a profile gives, in a few words.
func gives(p api.ProfileSlots) string {
	words := make([]string, 0, len(p.Shapes))
	for _, shape := range p.Shapes {
		if shape == api.ShapeVM && len(p.Sizes) > 0 {
			sizes := make([]string, 0, len(p.Sizes))
			for _, n := range p.Sizes {
				sizes = append(sizes, strconv.Itoa(n))
			}
			shape += " of " + strings.Join(sizes, "/")
		}
		words = append(words, shape)
	}
	if len(words) == 0 {
		return "no slots"
	}
	return "slots: " + screen.Printable(strings.Join(words, ", "))
}

func profileList(ctx context.Context, s *cli.Session) error {
	columns := []screen.Column{{Name: "NAME", Least: 12}, {Name: "NODES"}, {Name: "SLOTS", Rank: 1, Least: 12}, {Name: "ABOUT", Least: 16},
		{Name: "CHECKS", Wide: true}, {Name: "ACCEPTANCE", Wide: true}, {Name: "ERASE", Wide: true}, {Name: "RESTART", Wide: true},
		{Name: "CHANGED", Wide: true}, {Name: "BY", Wide: true}}
	return cli.ShowList(ctx, s, api.PathProfiles, nil, columns, func(l api.ProfileList) [][]string {
		return cli.Rows(l.Profiles, func(p api.Profile) []string {
			return []string{p.Name, strconv.Itoa(p.Nodes), strings.TrimPrefix(gives(p.Slots), "slots: "), p.About,
				strings.Join(p.Checks, ","), screen.YesNo(p.Acceptance), screen.YesNo(p.Erase), screen.YesNo(p.Restart), screen.Stamp(p.UpdatedAt), by(p)}
		})
	})
}

// by is who made a profile.
func by(p api.Profile) string {
	if p.BuiltIn {
		return "built in"
	}
	return screen.OrUnknown(p.UpdatedBy)
}

func profileShow(ctx context.Context, s *cli.Session) error {
	return cli.ShowEach(ctx, s, api.PathProfile, func(p api.Profile) {
		rows := [][]string{{"profile", p.Name}, {"about", p.About}, {"by", by(p)},
			{"changed", screen.Stamp(p.UpdatedAt)}, {"nodes", strconv.Itoa(p.Nodes)},
			{"slots", strings.TrimPrefix(gives(p.Slots), "slots: ")}, {"checks", strings.Join(p.Checks, ", ")},
			{"acceptance", screen.YesNo(p.Acceptance)}, {"erase", screen.YesNo(p.Erase)}, {"restart", screen.YesNo(p.Restart)}}
		screen.Pairs(s.Stdout, s.Screen(), rows)
		if p.CloudConfig != "" {
			fmt.Fprint(s.Stdout, "\nWhat cloud-init does:\n\n"+screen.Indent(p.CloudConfig)+"\n")
		}
	})
}

func profileRemove(ctx context.Context, s *cli.Session) error {
	name := s.Words[0]
	return s.Drop(ctx, api.At(api.PathProfile, name), nil, "remove the profile "+name, name+" is removed.")
}

// mostAssigned is how many nodes one request names.
const mostAssigned = 500

// assign gives nodes a profile. It goes on with the other nodes where one keeps what it has, and fails in the end.
func assign(ctx context.Context, s *cli.Session) error {
	profile := s.Words[0]
	deed := "assign " + profile + " to"
	if profile == none {
		profile = ""
		deed = "take the profile from"
	}
	nodes, err := s.Chosen(ctx, s.Words[1:], deed, false)
	if err != nil {
		return err
	}
	all := api.Assigned{Nodes: []api.AssignedNode{}}
	for some := range slices.Chunk(nodes, mostAssigned) {
		q := api.AssignRequest{Profile: profile}
		for _, node := range some {
			q.Nodes = append(q.Nodes, node.ID)
		}
		answer, err := cli.Send[api.Assigned](ctx, s, http.MethodPost, api.PathAssign, q)
		if err != nil {
			return err
		}
		all.Nodes = append(all.Nodes, answer.Nodes...)
	}
	if s.Form == cli.FormJSON {
		if err := s.WriteJSON(all); err != nil {
			return err
		}
	}
	failed := false
	for _, n := range all.Nodes {
		switch {
		case n.Refused != "":
			s.Report(n.Node+": "+n.Refused, "")
			failed = true
		case s.Form != cli.FormJSON:
			s.Printf("%s\n", n.Node+": "+assigned(n))
		}
	}
	if failed {
		return cli.ErrReported
	}
	return nil
}

// assigned says what came of one node.
func assigned(n api.AssignedNode) string {
	text := cmp.Or(n.Profile, none)
	if n.Before == n.Profile {
		text += ", as before"
	} else {
		text += ", before " + cmp.Or(n.Before, none)
	}
	switch {
	case n.Task != "":
		text += "; task " + n.Task + " looks whether the node is as it asks"
	case n.Profile != "":
		text += "; the node is looked at when it is heard from"
	}
	return text
}
