package workload

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

// imageFacts is what is read of an engine's image inspect.
type imageFacts struct {
	ID          string `json:"Id"`
	Digest      string // podman alone says it
	RepoDigests []string
}

// isImage tells whether an answer to image inspect is about the image of that digest. An image that came as a list for several
// platforms has the list's digest in RepoDigests.
func isImage(answer []byte, image string) bool {
	var all []imageFacts
	if err := json.Unmarshal(answer, &all); err != nil || len(all) != 1 {
		return false
	}
	_, digest, _ := strings.Cut(image, "@")
	facts := all[0]
	same := func(name string) bool { return strings.HasSuffix(name, "@"+digest) }
	return facts.ID == digest || facts.Digest == digest || slices.ContainsFunc(facts.RepoDigests, same)
}

// hasImage tells whether the image is on the node. An engine says in words of its own that it is not, so that every failure of the
// command counts as that.
func (e engine) hasImage(ctx context.Context, image string) (bool, error) {
	answer, err := e.ask(ctx, "image", "inspect", image)
	var exit *child.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	return err == nil && isImage(answer, image), nil
}

// fetch brings the image onto the node, and makes sure that it is the one that was asked for.
func (l *launch) fetch(ctx context.Context) error {
	image := pinned(l.params.Image)
	there, err := l.engine.hasImage(ctx, image)
	if err != nil || there {
		return err
	}
	fmt.Fprintf(l.out, "%s pulls %s\n", l.engine.name, l.params.Image)
	pull := call{args: []string{"pull"}, watch: l.out, live: true}
	if l.params.Login != "" {
		login, err := l.login(ctx)
		if err != nil {
			return err
		}
		defer os.RemoveAll(login.folder)
		pull.args = append(pull.args, login.options...)
		pull.env = login.env
	}
	pull.args = append(pull.args, image)
	if _, err := l.engine.run(ctx, pull); err != nil {
		return fmt.Errorf("the image could not be pulled: %w", err)
	}
	there, err = l.engine.hasImage(ctx, image)
	if err == nil && !there {
		err = fmt.Errorf("%s has pulled an image, and it is not the one with the digest of %s: nothing was started; look at the registry",
			l.engine.name, l.params.Image)
	}
	return err
}

// pinned is the name of an image as all engines take it.
func pinned(text string) string {
	image, _ := wire.ParseImage(text)
	return image.Pinned()
}

// login is what a pull needs to use a credential.
type login struct {
	folder  string
	options []string
	env     []string
}

// login writes the credential into a file that the engine's client reads for this one pull. The client's own command for a login is not
// used: it wants the user among its arguments, where everybody can read them, and it may hand the password to a keyring that keeps it.
func (l *launch) login(ctx context.Context) (login, error) {
	user, password, found := strings.Cut(l.secrets[l.params.Login], ":")
	if !found || user == "" || password == "" {
		return login{}, wire.Refuse(wire.CodeTaskParamsInvalid, fmt.Sprintf("the secret %q is not USER:PASSWORD", l.params.Login),
			"set it anew with muster secret set")
	}
	folder := filepath.Join(l.job.Dir, "registry")
	file := filepath.Join(folder, "config.json")
	content, err := authFile(l.params.Image, l.secrets[l.params.Login])
	if err == nil {
		err = os.Mkdir(folder, 0o700) // it fails where somebody has made a folder or a link of this name: nothing is written there
	}
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		return login{}, err
	}
	if l.engine.name == podman {
		return login{folder: folder, options: []string{"--authfile=" + file}}, nil
	}
	return login{folder: folder, env: l.privateConfig(ctx, folder)}, nil
}

// authFile is the file in which the engines' clients keep credentials, with one for the image's registry.
func authFile(image, credential string) ([]byte, error) {
	host, _, _ := strings.Cut(image, "/")
	entry := map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(credential))}
	auths := map[string]any{host: entry}
	if host == "docker.io" || host == "index.docker.io" {
		auths["https://index.docker.io/v1/"] = entry // the name by which docker's client looks for it
	}
	return json.Marshal(map[string]any{"auths": auths})
}

// privateConfig points the client to another folder for its configuration. Docker's own folder says with which daemon the client talks,
// so docker is asked for that first.
func (l *launch) privateConfig(ctx context.Context, folder string) []string {
	env := []string{"DOCKER_CONFIG=" + folder}
	if l.engine.name != docker {
		return env
	}
	answer, err := l.engine.ask(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if daemon := strings.TrimSpace(string(answer)); err == nil && daemon != "" {
		env = append(env, "DOCKER_HOST="+daemon)
	}
	return env
}
