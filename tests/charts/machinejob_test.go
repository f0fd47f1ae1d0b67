package charts

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// TestMachineJobs_PodsAreRestricted: the pods that create and remove machines also satisfy the Pod Security Standard
// `restricted`. They run in the namespaces of tenants, which may enforce it. So does the pod that asks a node driver
// for its flags.
func TestMachineJobs_PodsAreRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	check(t, err)
	in := machinejob.Input{
		Machine: machinejob.Machine{APIVersion: "rke-machine.cattle.io/v1", Kind: "DigitaloceanMachine",
			Namespace: "fleet-default", Name: "demo-pool-x2k4q", UID: "0d1b9b1c"},
		Driver: machinejob.Driver{Name: "digitalocean",
			Aliases: map[string]string{"sshKeyContents": "sshKeyPath"}},
		BootstrapSecret: "demo-pool-x2k4q-machine-bootstrap",
		Settings: machinejob.Settings{Image: "rancher/machine:v1",
			Certificates: map[string]string{"tls.crt": "PEM\n"}},
	}
	driver := &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	for name, job := range map[string]*batchv1.Job{"create": machinejob.RenderCreate(in).Job,
		"remove": machinejob.RenderRemove(in, 1).Job,
		"driver": driverjob.Render(driver, driverjob.Settings{Image: "drover-io/drover:v1"}, 1).Job} {
		t.Run(name, func(t *testing.T) {
			pod := job.Spec.Template
			for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted,
				Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
				if !result.Allowed {
					t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
		})
	}
}
