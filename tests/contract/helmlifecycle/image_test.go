package helmlifecycle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// drover is an image from scripts/image. Pods contain only this image's programs of Drover.
type drover struct {
	// Layout is the directory of the image.
	Layout string
	// Digest is the digest that scripts/image prints.
	Digest string
}

var printed = regexp.MustCompile(`(?m)^drover-io/drover:.*@(sha256:[0-9a-f]{64})$`)

// assemble builds the image of a version, or of the present one. It keeps the folder, so that finished parts are not
// built again.
func assemble(ctx context.Context, folder, version string) (drover, error) {
	repository, err := plane.FindRoot()
	if err != nil {
		return drover{}, err
	}
	dist := filepath.Join(repository, "dist", "contract", folder)
	script := exec.CommandContext(ctx, filepath.Join(repository, "scripts", "image"), "drover")
	script.Stderr, script.Env = os.Stderr, append(os.Environ(), "DROVER_DIST="+dist)
	if version != "" {
		script.Env = append(script.Env, "DROVER_VERSION="+version)
	}
	out, err := script.Output()
	if err != nil {
		return drover{}, err
	}
	digest := printed.FindSubmatch(out)
	if digest == nil {
		return drover{}, fmt.Errorf("scripts/image prints no digest, but %q", out)
	}
	return drover{Layout: filepath.Join(dist, "image", "drover"), Digest: string(digest[1])}, nil
}

// expectImage fails unless all pods run that image, by name and by content.
func expectImage(t *testing.T, st *stage.Stage, version string, image drover) {
	t.Helper()
	pods := &corev1.PodList{}
	check(t, st.Client.List(t.Context(), pods, client.InNamespace(charts.SystemNamespace)))
	name := "docker.io/drover-io/drover:" + version
	for i := range pods.Items {
		status := pods.Items[i].Status.ContainerStatuses
		if len(status) != 1 || status[0].Image != name || !strings.HasSuffix(status[0].ImageID, "@"+image.Digest) {
			t.Errorf("pod %s runs %+v, want image %s with digest %s", pods.Items[i].Name, status, name, image.Digest)
		}
	}
}
