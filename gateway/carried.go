package main

import (
	"fmt"
	"io/fs"
	"path"

	"muster/gateway/internal/artifact"
	"muster/gateway/internal/release/build"
)

// agents are the agent binaries that this gateway carries.
func (g *gateway) agents() (fs.FS, error) {
	if g.settings.agents != nil {
		return g.settings.agents, nil
	}
	return agentFiles()
}

// holdsAgents refuses a bound of the registry that is below the agents that this gateway carries: its nodes would get none of them.
func (g *gateway) holdsAgents(agents fs.FS) error {
	if agents == nil {
		return nil
	}
	names, err := fs.Glob(agents, "*-*/"+build.ProgramName)
	if err != nil {
		return err
	}
	var all size
	for _, name := range names {
		info, err := fs.Stat(agents, name)
		if err != nil {
			return err
		}
		one := size(info.Size())
		all += one
		if most := g.settings.maxBlob; most > 0 && one > most {
			return fmt.Errorf("%s allows a blob %d bytes, and the agent %s that this gateway carries has %d: give it at least so many, "+
				"such as 64MiB, or leave it out", artifact.SettingMaxBlob, most, path.Dir(name), one)
		}
	}
	if most := g.settings.quota; most > 0 && all > most {
		return fmt.Errorf("%s allows all blobs %d bytes, and the agents that this gateway carries have %d: give it room for several releases, "+
			"such as 1GiB, or leave it out", artifact.SettingQuota, most, all)
	}
	return nil
}
