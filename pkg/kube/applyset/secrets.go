package applyset

import (
	"context"
	"errors"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/apply"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// SecretClient writes Secrets. wrangler's generated client implements it.
type SecretClient interface {
	Create(*corev1.Secret) (*corev1.Secret, error)
	Update(*corev1.Secret) (*corev1.Secret, error)
	Delete(namespace, name string, options *metav1.DeleteOptions) error
	Get(namespace, name string, options metav1.GetOptions) (*corev1.Secret, error)
}

// Secrets applies sets of Secrets. They have the identity of a set, but not the annotation in which wrangler's apply
// repeats their contents.
type Secrets struct {
	scheme   *runtime.Scheme
	client   SecretClient
	informer cache.SharedIndexInformer
}

// NewSecrets returns a Secrets that reads from the informer. The informer must have the index, or must not be started
// yet.
func NewSecrets(scheme *runtime.Scheme, client SecretClient, informer cache.SharedIndexInformer) (*Secrets, error) {
	if err := addIndex(informer); err != nil {
		return nil, fmt.Errorf("index the cache of Secrets: %w", err)
	}
	return &Secrets{scheme: scheme, client: client, informer: informer}, nil
}

// Apply makes the set equal to desired. Without desired Secrets, it deletes all of the set. Type and data of a Secret
// become the desired ones. A Secret without desired data keeps its data, because the API server writes those of service
// accounts. Labels and annotations of others stay.
func (s *Secrets) Apply(_ context.Context, setID string, owner runtime.Object, refs OwnerRefs,
	desired []*corev1.Secret) (Result, error) {
	set, err := s.identify(setID, owner, refs)
	if err != nil {
		return Result{}, fmt.Errorf("apply Secrets of set %s: %w", setID, err)
	}
	stale, err := s.existing(set.labels[apply.LabelHash])
	if err != nil {
		return Result{}, fmt.Errorf("apply Secrets of set %s: %w", setID, err)
	}
	record := &recorder{}
	var errs []error
	for _, secret := range desired {
		want := set.mark(secret)
		key := want.Namespace + "/" + want.Name
		if err := s.ensure(record, set, stale[key], want); err != nil {
			errs = append(errs, fmt.Errorf("apply Secret %s of set %s: %w", key, setID, err))
		}
		delete(stale, key)
	}
	for key, secret := range stale {
		if secret.Labels[apply.LabelPrune] == "false" {
			continue
		}
		if err := s.delete(record, secret); err != nil {
			errs = append(errs, fmt.Errorf("delete Secret %s of set %s: %w", key, setID, err))
		}
	}
	return record.sorted(), errors.Join(errs...)
}

// Purge deletes the set. The owner may be deleted already.
func (s *Secrets) Purge(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace,
	name string) (Result, error) {
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "gone"}}
	gone.SetGroupVersionKind(owner)
	return s.Apply(ctx, setID, gone, NoOwnerRef, nil)
}

// secretIdentity is the metadata that every Secret of a set has.
type secretIdentity struct {
	labels, annotations map[string]string
	namespace           string
	reference           *metav1.OwnerReference
}

func (s *Secrets) identify(setID string, owner runtime.Object, refs OwnerRefs) (secretIdentity, error) {
	typed, err := withKind(s.scheme, owner)
	if err != nil {
		return secretIdentity{}, err
	}
	m, err := meta.Accessor(typed)
	if err != nil {
		return secretIdentity{}, err
	}
	if m.GetUID() == "" {
		return secretIdentity{}, fmt.Errorf("owner %q has no UID: it does not come from the API server", m.GetName())
	}
	hash, identity, err := apply.GetLabelsAndAnnotations(setID, typed)
	if err != nil {
		return secretIdentity{}, err
	}
	id := secretIdentity{labels: hash, annotations: identity, namespace: m.GetNamespace()}
	if refs != NoOwnerRef {
		gvk, controller := typed.GetObjectKind().GroupVersionKind(), refs == ControllerRef
		id.reference = &metav1.OwnerReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: m.GetName(), UID: m.GetUID(),
			Controller: &controller, BlockOwnerDeletion: &controller,
		}
	}
	return id, nil
}

// mark returns a copy of the Secret with the identity.
func (id secretIdentity) mark(secret *corev1.Secret) *corev1.Secret {
	secret = secret.DeepCopy()
	if secret.Namespace == "" {
		secret.Namespace = id.namespace
	}
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	secret.Labels = labels.Merge(secret.Labels, id.labels)
	secret.Annotations = labels.Merge(secret.Annotations, id.annotations)
	// With an owner in another namespace, the garbage collector would delete the Secret.
	if id.reference != nil && (id.namespace == "" || id.namespace == secret.Namespace) {
		secret.OwnerReferences = withReference(secret.OwnerReferences, *id.reference)
	}
	if len(secret.StringData) > 0 {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		for k, v := range secret.StringData {
			secret.Data[k] = []byte(v)
		}
		secret.StringData = nil
	}
	return secret
}

func (s *Secrets) existing(hash string) (map[string]*corev1.Secret, error) {
	if !s.informer.HasSynced() {
		return nil, errors.New("the cache of Secrets has not been filled")
	}
	found, err := s.informer.GetIndexer().ByIndex(hashIndex, hash)
	if err != nil {
		return nil, err
	}
	secrets := make(map[string]*corev1.Secret, len(found))
	for _, obj := range found {
		if secret, ok := obj.(*corev1.Secret); ok {
			secrets[secret.Namespace+"/"+secret.Name] = secret
		}
	}
	return secrets, nil
}

func (s *Secrets) ensure(record *recorder, id secretIdentity, have, want *corev1.Secret) error {
	if have == nil {
		_, err := s.client.Create(want)
		if err == nil {
			record.add(&record.result.Created, "secrets", want.Namespace, want.Name)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if have, err = s.client.Get(want.Namespace, want.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if hash := have.Labels[apply.LabelHash]; hash != "" && hash != id.labels[apply.LabelHash] {
			return fmt.Errorf("it belongs to set %q of %s", have.Annotations[apply.LabelID],
				describe(have.Annotations[apply.LabelGVK], have.Annotations[apply.LabelNamespace],
					have.Annotations[apply.LabelName]))
		}
	}
	if have.Type != want.Type { // the type of a Secret is immutable
		if err := s.delete(record, have); err != nil {
			return err
		}
		_, err := s.client.Create(want)
		if err == nil {
			record.add(&record.result.Created, "secrets", want.Namespace, want.Name)
		}
		return err
	}
	next := overlay(have, want)
	if equality.Semantic.DeepEqual(have, next) {
		return nil
	}
	if _, err := s.client.Update(next); err != nil {
		return err
	}
	record.add(&record.result.Updated, "secrets", want.Namespace, want.Name)
	return nil
}

// overlay returns have with the wanted changes.
func overlay(have, want *corev1.Secret) *corev1.Secret {
	next := have.DeepCopy()
	next.Labels = labels.Merge(next.Labels, want.Labels)
	next.Annotations = labels.Merge(next.Annotations, want.Annotations)
	for _, reference := range want.OwnerReferences {
		next.OwnerReferences = withReference(next.OwnerReferences, reference)
	}
	if want.Data != nil {
		next.Data = want.Data
	}
	return next
}

func (s *Secrets) delete(record *recorder, secret *corev1.Secret) error {
	uid := secret.UID
	err := s.client.Delete(secret.Namespace, secret.Name,
		&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		record.add(&record.result.Deleted, "secrets", secret.Namespace, secret.Name)
	}
	return err
}

func withReference(references []metav1.OwnerReference, reference metav1.OwnerReference) []metav1.OwnerReference {
	for i := range references {
		if references[i].UID == reference.UID {
			return references
		}
	}
	return append(references, reference)
}
