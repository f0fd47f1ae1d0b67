package processkubelet

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// containerPlace holds the paths of one attempt's files.
type containerPlace struct {
	attemptDir string
	logFile    string
	volumesDir string
}

// buildSpec returns the specification of a container. It creates the subPaths and host paths that the mounts need.
func buildSpec(pod *corev1.Pod, container *corev1.Container, image Image, node nodeFacts, place containerPlace,
	from sources) (containerSpec, error) {
	uid, gid, groups := identity(pod, container, image)
	home := homeDirectory(image, uid)
	env, err := environment(pod, container, image, home, node, from)
	if err != nil {
		return containerSpec{}, err
	}
	program, args := commandLine(container, image, env)
	dir := container.WorkingDir
	if dir == "" {
		dir = image.WorkingDir
	}
	if dir == "" {
		dir = "/"
	}
	mounts, err := mountsOf(pod, container, image, place)
	if err != nil {
		return containerSpec{}, fmt.Errorf("container %s: %w", container.Name, err)
	}
	return containerSpec{
		Program: program, Args: args, Env: env, Dir: dir, Home: variable(env, "HOME"), UID: uid, GID: gid,
		Groups: groups, Hostname: pod.Name,
		Mounts: mounts, LogFile: place.logFile, RootDir: filepath.Join(place.attemptDir, rootDir),
		ImageDir: image.layout.root, ReadOnlyRoot: image.layout.root != "" && readOnlyRoot(container),
	}, nil
}

// identity returns the user of a container, from the container, the pod or the image, in this order.
func identity(pod *corev1.Pod, container *corev1.Container, image Image) (uid, gid int, groups []int) {
	uid = int(image.User)
	gid = uid
	if image.layout.root != "" {
		gid = int(image.layout.group)
	}
	if pod.Spec.SecurityContext != nil {
		context := pod.Spec.SecurityContext
		uid, gid = override(uid, gid, context.RunAsUser, context.RunAsGroup)
		for _, group := range context.SupplementalGroups {
			groups = append(groups, int(group))
		}
		if context.FSGroup != nil {
			groups = append(groups, int(*context.FSGroup))
		}
	}
	if container.SecurityContext != nil {
		uid, gid = override(uid, gid, container.SecurityContext.RunAsUser, container.SecurityContext.RunAsGroup)
	}
	return uid, gid, groups
}

func override(uid, gid int, user, group *int64) (int, int) {
	if user != nil {
		uid = int(*user)
	}
	if group != nil {
		gid = int(*group)
	}
	return uid, gid
}

func homeDirectory(image Image, uid int) string {
	switch {
	case image.WorkingDir != "" && image.WorkingDir != "/":
		return image.WorkingDir
	case uid == 0:
		return "/root"
	}
	return "/home/pod"
}

// commandLine follows the rules of the Pod API. A command replaces the image's program and arguments. Without a
// command, the container's arguments follow the program's. $(NAME) in both expands to the environment.
func commandLine(container *corev1.Container, image Image, env []string) (string, []string) {
	values := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	expand := func(in []string) []string {
		out := make([]string, 0, len(in))
		for _, text := range in {
			out = append(out, expansion.Expand(text, expansion.MappingFuncFor(values)))
		}
		return out
	}
	args := expand(container.Args)
	if command := expand(container.Command); len(command) > 0 {
		return command[0], append(command[1:], args...)
	}
	if len(args) == 0 {
		args = image.layout.command
	}
	if image.Program == "" { // an image without an entrypoint
		return args[0], args[1:]
	}
	return image.Program, append(append([]string{}, image.Args...), args...)
}

// readOnlyRoot reports whether a container may write only to its volumes. Local programs have no image files to
// protect.
func readOnlyRoot(container *corev1.Container) bool {
	context := container.SecurityContext
	return context != nil && context.ReadOnlyRootFilesystem != nil && *context.ReadOnlyRootFilesystem
}

func variable(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// mountsOf lists the mounts of a container in order: the image's, the pod's volumes, the termination message.
func mountsOf(pod *corev1.Pod, container *corev1.Container, image Image, place containerPlace) ([]mountSpec, error) {
	var mounts []mountSpec
	if image.layout.root == "" && !visible(image.Program) {
		mounts = append(mounts, mountSpec{Source: image.Program, Target: image.Program, ReadOnly: true})
	}
	for _, target := range slices.Sorted(maps.Keys(image.Files)) {
		mounts = append(mounts, mountSpec{Source: image.Files[target], Target: target, ReadOnly: true})
	}
	volumes := map[string]corev1.Volume{}
	for _, volume := range pod.Spec.Volumes {
		volumes[volume.Name] = volume
	}
	for _, mount := range container.VolumeMounts {
		volume, ok := volumes[mount.Name]
		if !ok {
			return nil, fmt.Errorf("volume %q of mount %s does not exist", mount.Name, mount.MountPath)
		}
		base := filepath.Join(place.volumesDir, volume.Name)
		if volume.HostPath != nil {
			base = volume.HostPath.Path
		}
		source, err := subPath(base, mount.SubPath)
		if err != nil {
			return nil, fmt.Errorf("mount %s: %w", mount.MountPath, err)
		}
		// Like a kubelet, mount Secrets and similar volumes read-only.
		readOnly := mount.ReadOnly || volume.HostPath == nil && volume.EmptyDir == nil
		mounts = append(mounts, mountSpec{Source: source, Target: mount.MountPath, ReadOnly: readOnly,
			Recursive: volume.HostPath != nil})
	}
	return append(mounts, mountSpec{Source: filepath.Join(place.attemptDir, terminationFile),
		Target: terminationPath(container)}), nil
}

// visible reports whether every container sees a program of this machine without a mount.
func visible(program string) bool {
	if strings.HasPrefix(program, "/usr/local/") {
		return false
	}
	for _, dir := range systemDirs {
		if strings.HasPrefix(program, "/"+dir+"/") {
			return true
		}
	}
	return false
}

func terminationPath(container *corev1.Container) string {
	if container.TerminationMessagePath != "" {
		return container.TerminationMessagePath
	}
	return corev1.TerminationMessagePathDefault
}

// makeHostPath creates or checks the path of a hostPath volume, as its type requires.
func makeHostPath(source *corev1.HostPathVolumeSource) error {
	if source.Type != nil && *source.Type == corev1.HostPathDirectoryOrCreate {
		if err := os.MkdirAll(source.Path, 0o755); err != nil {
			return fmt.Errorf("make host path: %w", err)
		}
	}
	if _, err := os.Stat(source.Path); err != nil {
		return fmt.Errorf("find host path: %w", err)
	}
	return nil
}
