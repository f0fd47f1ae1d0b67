package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
)

// modeNames are the values of --restore-config.
func modeNames() []string {
	return []string{string(rkev1.RestoreModeNone), string(rkev1.RestoreModeKubernetesVersion),
		string(rkev1.RestoreModeAll)}
}

// checkMode refuses an unknown value of --restore-config, and flags without effect.
func (o *restoreOptions) checkMode() error {
	switch {
	case !slices.Contains(modeNames(), o.mode):
		return fmt.Errorf("--restore-config: %q must be one of %s", o.mode, strings.Join(modeNames(), ", "))
	case o.printSpec && o.mode == string(rkev1.RestoreModeNone):
		return fmt.Errorf("--print-spec: no field goes back without --restore-config; set it to one of %s",
			strings.Join(modeNames()[1:], ", "))
	}
	return nil
}

// printManifest prints the part of the Cluster's manifest that a restore puts back.
func (o *restoreOptions) printManifest(cmd *cobra.Command, cluster, snapshot string) error {
	if err := o.checkMode(); err != nil {
		return err
	}
	c, err := o.writer()
	if err != nil {
		return err
	}
	defer c.Stop()
	ctx := cmd.Context()
	s, err := operationAPI{c.Provisioning.Cluster(), c.RKE.RKEControlPlane()}.look(ctx, o.inNamespace(), cluster)
	if err != nil {
		return err
	}
	result, err := meanwhile(ctx, func() (restoredspec.Result, error) {
		result, _, err := o.gatherer(ctx, s).Configuration(s, o.order(snapshot))
		return result, err
	})
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(result.Manifest())
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
}
