package clustersync

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

const (
	// pageSize and maxPages limit the copies that Drover reads in a namespace. A Secret has at most 1 MiB.
	pageSize = 50
	maxPages = 40
)

// store reads and writes Secrets and ConfigMaps in a cluster.
type store struct{ client kubernetes.Interface }

// each calls do for every copy of a kind in a namespace.
func (s store) each(ctx context.Context, kind, namespace, id string, do func(object)) error {
	options := metav1.ListOptions{Limit: pageSize,
		LabelSelector: labels.SelectorFromSet(labels.Set{provv1.SyncedForLabel: id}).String()}
	for range maxPages {
		page, next, err := s.list(ctx, kind, namespace, options)
		if err != nil {
			return fmt.Errorf("list copies in namespace %s: %w", namespace, err)
		}
		for _, found := range page {
			do(found)
		}
		if options.Continue = next; next == "" {
			return nil
		}
	}
	return fmt.Errorf("list copies in namespace %s: there are more than %d", namespace, pageSize*maxPages)
}

func (s store) list(ctx context.Context, kind, namespace string, options metav1.ListOptions) (page []object,
	next string, err error) {
	if kind == kindSecret {
		list, err := s.client.CoreV1().Secrets(namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		for i := range list.Items {
			page = append(page, ofSecret(&list.Items[i]))
		}
		return page, list.Continue, nil
	}
	list, err := s.client.CoreV1().ConfigMaps(namespace).List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		page = append(page, ofConfigMap(&list.Items[i]))
	}
	return page, list.Continue, nil
}

func (s store) get(ctx context.Context, at target) (object, error) {
	if at.kind == kindSecret {
		found, err := s.client.CoreV1().Secrets(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
		return ofSecret(found), err
	}
	found, err := s.client.CoreV1().ConfigMaps(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	return ofConfigMap(found), err
}

func (s store) create(ctx context.Context, made object) (err error) {
	if made.kind == kindSecret {
		_, err = s.client.CoreV1().Secrets(made.Namespace).Create(ctx, made.secret(), metav1.CreateOptions{})
	} else {
		_, err = s.client.CoreV1().ConfigMaps(made.Namespace).Create(ctx, made.configMap(), metav1.CreateOptions{})
	}
	return err
}

// update writes an object at the version that was read.
func (s store) update(ctx context.Context, changed object) (err error) {
	if changed.kind == kindSecret {
		_, err = s.client.CoreV1().Secrets(changed.Namespace).Update(ctx, changed.secret(), metav1.UpdateOptions{})
	} else {
		_, err = s.client.CoreV1().ConfigMaps(changed.Namespace).Update(ctx, changed.configMap(),
			metav1.UpdateOptions{})
	}
	return err
}

// remove deletes an object at the version that was read, so that it never deletes one without Drover's label.
func (s store) remove(ctx context.Context, found object) error {
	if found.UID == "" {
		return errors.New("delete a copy: it has no UID")
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID,
		ResourceVersion: &found.ResourceVersion}}
	if found.kind == kindSecret {
		return s.client.CoreV1().Secrets(found.Namespace).Delete(ctx, found.Name, options)
	}
	return s.client.CoreV1().ConfigMaps(found.Namespace).Delete(ctx, found.Name, options)
}
