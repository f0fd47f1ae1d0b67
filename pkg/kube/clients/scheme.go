package clients

import (
	"errors"
	"fmt"
	"reflect"

	lassoclient "github.com/rancher/lasso/pkg/client"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// NewScheme returns a scheme with Kubernetes' own kinds, CustomResourceDefinitions, Drover's kinds and Cluster API's.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		kubescheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		provv1.AddToScheme,
		rkev1.AddToScheme,
		mgmtv3.AddToScheme,
		clusterv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// handled returns the kinds that have generated clients. A host's scheme must have the same Go types for them.
func handled() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for gv, names := range map[schema.GroupVersion][]string{
		provv1.SchemeGroupVersion: {"Cluster"},
		rkev1.SchemeGroupVersion: {
			"CustomMachine", "ETCDSnapshot", "RKEBootstrap", "RKEBootstrapTemplate", "RKECluster", "RKEControlPlane",
		},
		mgmtv3.SchemeGroupVersion: {
			"Cluster", "ClusterRegistrationToken", "DynamicSchema", "FleetWorkspace", "ManagedChart", "NodeDriver",
			"PodSecurityAdmissionConfigurationTemplate",
		},
		clusterv1.GroupVersion: {"Cluster", "Machine", "MachineDeployment", "MachineHealthCheck", "MachineSet"},
	} {
		for _, name := range names {
			kinds = append(kinds, gv.WithKind(name))
		}
	}
	return kinds
}

// checkHost returns an error that names every kind for which the host's factory has another Go type than Drover.
// Drover's clients would panic on the first object.
func checkHost(ours *runtime.Scheme, host lassoclient.SharedClientFactory) error {
	var errs []error
	for _, gvk := range handled() {
		want, err := ours.New(gvk)
		if err != nil {
			return fmt.Errorf("build the scheme: %w", err)
		}
		got, _, err := host.NewObjects(gvk)
		if err != nil {
			errs = append(errs, fmt.Errorf("kind %s: %w", gvk, err))
			continue
		}
		if reflect.TypeOf(got) != reflect.TypeOf(want) {
			errs = append(errs, fmt.Errorf("kind %s is %T in the embedding program's scheme, but Drover needs %T: "+
				"add Drover's types to that scheme, or let Drover create its own factory", gvk, got, want))
		}
	}
	return errors.Join(errs...)
}
