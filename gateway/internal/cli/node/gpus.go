package node

import (
	"context"
	"fmt"
	"strconv"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// asSeen stands on the command line instead of a number: the highest number of GPUs that the node shows.
const asSeen = "seen"

func gpusCommand() cli.Command {
	return cli.Command{Name: "node gpus", Args: "NAME... N|" + asSeen, Least: 1, Most: -1, Flags: []string{"selector", "yes"},
		Run:     nodeGPUs,
		Summary: "set how many GPUs are expected",
		Text: "The gateway remembers the highest number of GPUs that a node ever showed, or what its token said, and a node that shows " +
			"fewer is unavailable (gpu_count_dropped). " +
			"After a GPU was taken out for good, say how many are left: that number stands until another one is said, or the node enrols " +
			"anew. " +
			asSeen + " goes back to the highest number that is seen from now on. " + cli.AskText,
		Examples: []string{"muster node gpus gpu-1 7", "muster node gpus gpu-1 gpu-2 " + asSeen, "muster node gpus -l tier=spot 0 --yes"}}
}

func nodeGPUs(ctx context.Context, s *cli.Session) error {
	names, patch, err := gpusArguments(s.Words)
	if err != nil {
		return err
	}
	return s.ActOn(ctx, names, "set the GPUs of", false, func(t cli.Target) (string, error) {
		n, err := cli.Send[api.Node](ctx, s, "PATCH", api.At(api.PathNode, t.ID), patch)
		if err != nil || n.GPUsExpected == nil {
			return "as many GPUs as are seen", err
		}
		return screen.Plural(*n.GPUsExpected, "GPU"), nil
	})
}

// gpusArguments takes the last argument for the number. Without names the nodes are selected.
func gpusArguments(args []string) (names []string, patch api.NodePatch, err error) {
	last := args[len(args)-1]
	names = args[:len(args)-1]
	if last == asSeen {
		return names, api.NodePatch{GPUsAsSeen: true}, nil
	}
	n, err := strconv.Atoi(last)
	if err != nil || n < 0 {
		return nil, patch, cli.Usagef(fmt.Sprintf("write muster node gpus NAME 7, or %s instead of the number", asSeen),
			"%q is no number of GPUs", last)
	}
	return names, api.NodePatch{GPUsExpected: &n}, nil
}
