package main

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// sourceInBuild is the path of the repository in the Dockerfile's first stage.
const sourceInBuild = "/src/"

// Stage is the content of one target of the Dockerfile.
type Stage struct {
	Config v1.Config
	// Steps are its changes of the file system, in order.
	Steps []Step
}

// Step copies a folder of the repository, or an empty folder, into the image.
type Step struct {
	// Source is a path in the repository, with '/'. If it is empty, the step creates an empty folder if there is none.
	Source string
	// Destination is a path in the image, without its first '/'.
	Destination string
	UID, GID    int
}

// ParseStage reads the target name of a Dockerfile. Arguments have values from args or the Dockerfile's defaults. It
// rejects a target that needs more than a file tree and a configuration, because only an engine can build that.
func ParseStage(dockerfile io.Reader, name string, args map[string]string) (*Stage, error) {
	parsed, err := parser.Parse(dockerfile)
	if err != nil {
		return nil, fmt.Errorf("parse Dockerfile: %w", err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, fmt.Errorf("parse Dockerfile: %w", err)
	}
	for _, stage := range stages {
		if stage.Name != name {
			continue
		}
		if stage.BaseName != "scratch" {
			return nil, fmt.Errorf("stage %s is from %s: without an engine it has to be from scratch", name,
				stage.BaseName)
		}
		reading := reader{given: args, words: shell.NewLex(parsed.EscapeToken), variables: variables{}}
		for _, command := range stage.Commands {
			if err := reading.command(command); err != nil {
				return nil, fmt.Errorf("stage %s: %s: %w", name, command, err)
			}
		}
		return &reading.stage, nil
	}
	return nil, fmt.Errorf("the Dockerfile has no stage %s", name)
}

// variables are the variables that ARG and ENV have set so far.
type variables map[string]string

func (v variables) Get(name string) (string, bool) { value, ok := v[name]; return value, ok }

func (v variables) Keys() []string { return nil }

// reader processes the instructions of a stage.
type reader struct {
	given     map[string]string
	words     *shell.Lex
	variables variables
	stage     Stage
}

func (r *reader) command(command instructions.Command) error {
	if expandable, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if err := expandable.Expand(r.expand); err != nil {
			return err
		}
	}
	switch c := command.(type) {
	case *instructions.ArgCommand:
		r.arguments(c)
	case *instructions.LabelCommand:
		r.labels(c)
	case *instructions.EnvCommand:
		r.environment(c)
	case *instructions.UserCommand:
		r.stage.Config.User = c.User
		_, _, err := numbers(c.User)
		return err
	case *instructions.WorkdirCommand:
		return r.workdir(c)
	case *instructions.EntrypointCommand:
		if c.PrependShell {
			return errors.New("the image has no shell: want the form with brackets")
		}
		r.stage.Config.Entrypoint = c.CmdLine
	case *instructions.CopyCommand:
		return r.copy(c)
	default:
		return fmt.Errorf("%s needs an engine", strings.ToUpper(command.Name()))
	}
	return nil
}

func (r *reader) expand(word string) (string, error) {
	out, unknown, err := r.words.ProcessWord(word, r.variables)
	for name := range unknown {
		return "", fmt.Errorf("$%s is not set: it needs an ARG with a value in this stage", name)
	}
	return out, err
}

func (r *reader) arguments(c *instructions.ArgCommand) {
	for _, argument := range c.Args {
		if value, ok := r.given[argument.Key]; ok {
			r.variables[argument.Key] = value
		} else if argument.Value != nil {
			r.variables[argument.Key] = *argument.Value
		}
	}
}

func (r *reader) labels(c *instructions.LabelCommand) {
	if r.stage.Config.Labels == nil {
		r.stage.Config.Labels = map[string]string{}
	}
	for _, label := range c.Labels {
		r.stage.Config.Labels[label.Key] = label.Value
	}
}

func (r *reader) environment(c *instructions.EnvCommand) {
	for _, variable := range c.Env {
		r.variables[variable.Key] = variable.Value
		r.stage.Config.Env = append(r.stage.Config.Env, variable.String())
	}
}

// workdir creates the folder with the current user as its owner, as engines do.
func (r *reader) workdir(c *instructions.WorkdirCommand) error {
	if !path.IsAbs(c.Path) {
		return fmt.Errorf("want a path that begins with /, not %q", c.Path)
	}
	uid, gid, err := numbers(r.stage.Config.User)
	if err != nil {
		return err
	}
	r.stage.Config.WorkingDir = path.Clean(c.Path)
	r.stage.Steps = append(r.stage.Steps, Step{Destination: relative(c.Path), UID: uid, GID: gid})
	return nil
}

func (r *reader) copy(c *instructions.CopyCommand) error {
	uid, gid, err := numbers(c.Chown)
	if err != nil {
		return err
	}
	for _, source := range c.SourcePaths {
		inside, ok := strings.CutPrefix(source, sourceInBuild)
		if c.From == "" || !ok || !strings.HasSuffix(source, "/") || c.Chmod != "" {
			return fmt.Errorf("want folders below %s, with a / at the end, from a stage that builds", sourceInBuild)
		}
		r.stage.Steps = append(r.stage.Steps, Step{Source: path.Clean(inside), Destination: relative(c.DestPath),
			UID: uid, GID: gid})
	}
	return nil
}

func relative(location string) string { return strings.TrimPrefix(path.Clean(location), "/") }

// numbers parses "UID:GID". Empty means root.
func numbers(user string) (uid, gid int, err error) {
	if user == "" {
		return 0, 0, nil
	}
	first, second, ok := strings.Cut(user, ":")
	if !ok {
		return 0, 0, fmt.Errorf("user %q: want UID:GID", user)
	}
	if uid, err = strconv.Atoi(first); err != nil {
		return 0, 0, fmt.Errorf("user %q: want numbers, so that Kubernetes can tell that it is not root: %w", user, err)
	}
	if gid, err = strconv.Atoi(second); err != nil {
		return 0, 0, fmt.Errorf("user %q: want numbers, so that Kubernetes can tell that it is not root: %w", user, err)
	}
	return uid, gid, nil
}
