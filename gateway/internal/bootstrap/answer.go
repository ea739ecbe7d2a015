package bootstrap

import (
	"fmt"
	"muster/gateway/api"
)

// Hints in answers that hold a script. A shell that runs such an answer says that there is no command with this name. So the hint has
// no slash: with one, the shell would look for a file.
const (
	noShell       = "this answer is JSON, which no shell can run: "
	orCommand     = ", or add -o script to the muster command"
	notAScript    = noShell + "add format=script to the URL to get the script by itself" + orCommand
	notAScriptYet = noShell + "ask for bootstrap-script of this node with format=script to get a script" + orCommand
)

// Created returns the answer for a new node, with what installs it.
func (m Minted) Created(n api.Node) api.CreatedNode {
	return api.CreatedNode{Hint: notAScriptYet, Node: n, BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL,
		ExpiresAt: m.ExpiresAt.UTC(), FetchWindow: api.Duration(m.Window), Command: m.Command, UserData: m.UserData, Script: m.Script,
		ScriptSHA256: m.ScriptSum, Packages: api.Each(m.Packages, packageOf), Metadata: metadataOf(m)}
}

// Answer returns the answer for an existing node.
func (m Minted) Answer(id, name string) api.BootstrapScript {
	return api.BootstrapScript{Hint: notAScript, NodeID: id, Node: name, BootstrapToken: m.Token.Reveal(), BootstrapURL: m.URL,
		ExpiresAt: m.ExpiresAt.UTC(), FetchWindow: api.Duration(m.Window), Script: m.Script, ScriptSHA256: m.ScriptSum,
		FetchSHA256: m.FetchSum, Mode: m.Mode, Command: m.Command, UserData: m.UserData, Metadata: metadataOf(m)}
}

// metadataOf says what a script brings. PackageRef and PackageDigest name the release that it installs, and repeat the first package
// if there is none.
func metadataOf(m Minted) api.BootstrapMetadata {
	out := api.BootstrapMetadata{TrustBundleVersion: fmt.Sprintf("v%d", m.TrustNumber), Packages: api.Each(m.Packages, packageOf),
		PackageRef: m.Release.Reference, PackageDigest: m.Release.Digest}
	if m.Release.Reference == "" && len(out.Packages) > 0 {
		first := out.Packages[0]
		out.PackageRef = first.Ref
		out.PackageDigest = first.Digest
	}
	return out
}

func packageOf(p Package) api.BootstrapPackage {
	return api.BootstrapPackage{Platform: p.OS + "/" + p.Arch, Ref: p.Ref, Digest: p.Digest}
}
