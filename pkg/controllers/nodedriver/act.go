package nodedriver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// writeSchemas writes the schemas of the configuration and of the credential. Only the first has the driver's label:
// deletion of a driver's objects by label must leave credentials readable.
func (h *handler) writeSchemas(s snapshot, res result) error {
	label := map[string]string{rkev1.NodeDriverNameLabel: res.name}
	if err := h.writeSchema(s.driver, driverschema.ConfigSchema(res.name), label, res.fields); err != nil {
		return err
	}
	credential := driverschema.CredentialFields(res.name, res.fields, res.metadata)
	return h.writeSchema(s.driver, driverschema.CredentialSchema(res.name), nil, credential)
}

func (h *handler) writeSchema(driver *mgmtv3.NodeDriver, name string, labels map[string]string,
	fields map[string]mgmtv3.Field) error {
	existing, err := h.schema(name)
	if err != nil {
		return err
	}
	owner := metav1.OwnerReference{
		APIVersion: mgmtv3.SchemeGroupVersion.String(), Kind: "NodeDriver", Name: driver.Name, UID: driver.UID,
	}
	if existing == nil {
		_, err := h.DynamicSchemas.Create(&mgmtv3.DynamicSchema{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
			Spec:       mgmtv3.DynamicSchemaSpec{ResourceFields: fields},
		})
		if err != nil {
			return fmt.Errorf("create schema %s: %w", name, err)
		}
		return nil
	}
	next := existing.DeepCopy()
	next.Spec.ResourceFields = fields
	next.OwnerReferences = []metav1.OwnerReference{owner}
	for key, value := range labels {
		metav1.SetMetaDataLabel(&next.ObjectMeta, key, value)
	}
	if equality.Semantic.DeepEqual(existing, next) {
		return nil
	}
	if _, err := h.DynamicSchemas.Update(next); err != nil {
		return fmt.Errorf("write schema %s: %w", name, err)
	}
	return nil
}

// embed updates the three lists of all drivers. It starts from all drivers, so that the lists lose a driver that was
// deleted while no controller ran.
func (h *handler) embed() error {
	h.embedding.Lock()
	defer h.embedding.Unlock()
	configs, credentials, err := h.embedded()
	if err != nil {
		return err
	}
	for _, list := range []struct {
		driverschema.Embedding
		fields map[string]string
	}{
		{driverschema.NodeConfigs, configs}, {driverschema.NodeTemplateConfigs, configs},
		{driverschema.CredentialConfigs, credentials},
	} {
		if err := h.writeEmbedding(list.Embedding, list.fields); err != nil {
			return err
		}
	}
	return nil
}

func (h *handler) writeEmbedding(e driverschema.Embedding, fields map[string]string) error {
	existing, err := h.schema(e.Name)
	if err != nil {
		return err
	}
	switch {
	case existing != nil:
		err = h.updateEmbedding(e, existing, fields)
	case len(fields) > 0:
		spec, _ := e.Embedded(mgmtv3.DynamicSchemaSpec{}, fields)
		_, err = h.DynamicSchemas.Create(&mgmtv3.DynamicSchema{ObjectMeta: metav1.ObjectMeta{Name: e.Name}, Spec: spec})
	}
	// The cache did not yet show the write for another driver.
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		live, getErr := h.DynamicSchemas.Get(e.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("read schema %s: %w", e.Name, getErr)
		}
		err = h.updateEmbedding(e, live, fields)
	}
	if err != nil {
		return fmt.Errorf("write schema %s: %w", e.Name, err)
	}
	return nil
}

func (h *handler) updateEmbedding(e driverschema.Embedding, existing *mgmtv3.DynamicSchema,
	fields map[string]string) error {
	spec, changed := e.Embedded(existing.Spec, fields)
	if !changed {
		return nil
	}
	next := existing.DeepCopy()
	next.Spec = spec
	_, err := h.DynamicSchemas.Update(next)
	return err
}
