package server

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/capi"
)

// prepare creates in the management cluster what all other parts require: definitions, namespaces and the grants key.
func (s *Server) prepare(ctx context.Context) error {
	definitions, err := apiextclient.NewForConfig(s.every.Config)
	if err != nil {
		return fmt.Errorf("create the client for CRDs: %w", err)
	}
	client := definitions.ApiextensionsV1().CustomResourceDefinitions()
	own, err := crds.All()
	if err != nil {
		return err
	}
	core, err := capi.Definitions()
	if err != nil {
		return err
	}
	if _, err := crds.Ensure(ctx, client, core, crds.Options{HostOwned: s.opts.CAPI == CAPIExternal,
		Timeout: s.opts.StartTimeout}); err != nil {
		return fmt.Errorf("find Cluster API (%s): %w", s.opts.CAPI, err)
	}
	if _, err := crds.Ensure(ctx, client, own,
		crds.Options{HostOwned: s.opts.CRDs == CRDsHost, Timeout: s.opts.StartTimeout}); err != nil {
		return err
	}
	if err := s.ensureNamespaces(ctx); err != nil {
		return err
	}
	s.grantsKey, err = access.Key(ctx, s.every.Kubernetes, controllers.SystemNamespace)
	return err
}

// ensureNamespaces creates the namespaces that users and controllers rely on.
func (s *Server) ensureNamespaces(ctx context.Context) error {
	namespaces := s.every.Kubernetes.CoreV1().Namespaces()
	for _, name := range controllers.Namespaces() {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
				metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}
