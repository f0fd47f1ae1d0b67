package distro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// secretsPage is the number of Secrets per list request.
const secretsPage = 500

// secretsEncryption is a server's part in the encryption of Secrets. It is nil on servers without encryption.
type secretsEncryption struct {
	layout Layout
	node   Node
	client kubernetes.Interface
	store  bootstrapStore
	log    io.Writer
	// commands serializes commands.
	commands sync.Mutex
	// requests are requests to reencrypt.
	requests chan struct{}
}

// encrypts reports whether Secrets are encrypted: always in RKE2, and in K3s if configured.
func (c Config) encrypts(runtime Runtime) bool {
	return !c.DisableAPIServer && (runtime == RKE2 || c.SecretsEncryption)
}

func (r *run) newSecretsEncryption(client kubernetes.Interface) *secretsEncryption {
	if !r.config.encrypts(r.Runtime) {
		return nil
	}
	return &secretsEncryption{
		layout: r.layout, node: r.node, client: client, store: bootstrapStore{localMembers(r.layout), r.config.Token},
		log: r.Log, requests: make(chan struct{}, 1),
	}
}

// known delays a task, the API server, until this server has the cluster's encryption.
func (e *secretsEncryption) known(t task) task {
	if e == nil {
		return t
	}
	return func(ctx context.Context) error {
		last := ""
		shared := poll(ctx, func() bool {
			err := e.store.shareEncryption(ctx, e.layout)
			if err != nil && err.Error() != last {
				last = err.Error()
				fmt.Fprintf(e.log, "waiting for the encryption of Secrets: %v\n", err)
			}
			return err == nil
		})
		if !shared {
			return nil // the node is stopping
		}
		return t(ctx)
	}
}

// annotation returns the key of a Node's annotation with its server's encryption state.
func (e *secretsEncryption) annotation() string {
	return string(e.layout.Runtime) + ".io/encryption-config-hash"
}

// annotate adds the state of the server's files to annotations of its node, so that a rotation continues after a
// restart.
func (e *secretsEncryption) annotate(annotations map[string]string) error {
	if e == nil {
		return nil
	}
	files, err := readEncryption(e.layout)
	annotations[e.annotation()] = files.State
	return err
}

// answerStatus and answerCommand answer requests of the host's administrator.
func (e *secretsEncryption) answerStatus(ctx context.Context, _ url.Values) (any, error) {
	return e.status(ctx)
}

func (e *secretsEncryption) answerCommand(ctx context.Context, query url.Values) (any, error) {
	// The client may cancel the request, but a half-done step would block all later steps.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return struct{}{}, e.command(ctx, query.Get("stage"))
}

func (e *secretsEncryption) status(ctx context.Context) (encryptionStatus, error) {
	if e == nil {
		return encryptionStatus{}, nil
	}
	files, err := readEncryption(e.layout)
	if err != nil {
		return encryptionStatus{}, err
	}
	keys, err := files.keys()
	if err != nil {
		return encryptionStatus{}, err
	}
	states, err := e.states(ctx)
	if err != nil {
		return encryptionStatus{}, err
	}
	status := encryptionStatus{Enable: new(true), Stage: encryption{State: states[e.node.Name]}.stage(),
		ActiveKey: keys[0].Name, HashMatch: true}
	for _, key := range keys[1:] {
		status.InactiveKeys = append(status.InactiveKeys, key.Name)
	}
	if err := compareStates(states); err != nil {
		status.HashMatch, status.HashError = false, err.Error()
	}
	return status, nil
}

// states returns the states on the nodes with an API server.
func (e *secretsEncryption) states(ctx context.Context) (map[string]string, error) {
	nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: controlPlaneRole + "=true"})
	if err != nil {
		return nil, fmt.Errorf("read the servers' encryption: %w", err)
	}
	states := map[string]string{}
	for i := range nodes.Items {
		states[nodes.Items[i].Name] = nodes.Items[i].Annotations[e.annotation()]
	}
	if states[e.node.Name] == "" {
		return nil, fmt.Errorf("node %s has no encryption hash yet", e.node.Name)
	}
	return states, nil
}

// command runs the next stage of a rotation.
func (e *secretsEncryption) command(ctx context.Context, command string) error {
	if e == nil {
		return errors.New("secrets encryption is disabled")
	}
	e.commands.Lock()
	defer e.commands.Unlock()
	files, err := readEncryption(e.layout)
	if err != nil {
		return err
	}
	states, err := e.states(ctx)
	if err != nil {
		return err
	}
	if err := files.refuse(command, e.node.Name, states); err != nil {
		return err
	}
	switch command {
	case "prepare":
		files, err = files.prepared(time.Now())
	case "rotate":
		files, err = files.rotated()
	default:
		if err := e.mark(ctx, stageReencryptRequest+"-"+files.hash()); err != nil {
			return err
		}
		e.requests <- struct{}{}
		return nil
	}
	if err != nil {
		return err
	}
	return e.replace(ctx, files)
}

// replace gives the cluster a new encryption. Other servers get it at their next start. It updates the cluster first: a
// server that is interrupted reads it from there.
func (e *secretsEncryption) replace(ctx context.Context, by encryption) error {
	if err := e.store.keepEncryption(ctx, by); err != nil {
		return err
	}
	if err := by.write(e.layout); err != nil {
		return err
	}
	return e.mark(ctx, by.State)
}

// mark writes a state on the server's node.
func (e *secretsEncryption) mark(ctx context.Context, state string) error {
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"annotations": map[string]string{e.annotation(): state}}})
	if err != nil {
		return fmt.Errorf("encode state of encryption: %w", err)
	}
	_, err = e.client.CoreV1().Nodes().Patch(ctx, e.node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// reencryptOnRequest runs until ctx ends.
func (e *secretsEncryption) reencryptOnRequest(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.requests:
		}
		last := ""
		_ = poll(ctx, func() bool {
			err := e.reencrypt(ctx)
			if err != nil && err.Error() != last {
				last = err.Error()
				fmt.Fprintf(e.log, "reencryption goes on: %v\n", err)
			}
			return err == nil
		})
	}
}

// reencrypt writes all Secrets with the first key and drops the last key.
func (e *secretsEncryption) reencrypt(ctx context.Context) error {
	files, err := readEncryption(e.layout)
	if err != nil {
		return err
	}
	if files.stage() == stageReencryptFinished {
		return e.mark(ctx, files.State) // an earlier try got this far
	}
	if err := e.mark(ctx, stageReencryptActive+"-"+files.hash()); err != nil {
		return err
	}
	written, err := e.rewriteSecrets(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.log, "reencrypted %d Secrets\n", written)
	if files, err = files.reencrypted(); err != nil {
		return err
	}
	return e.replace(ctx, files)
}

// rewriteSecrets updates each Secret without a change. The API server stores it again if it is not encrypted with the
// first key.
func (e *secretsEncryption) rewriteSecrets(ctx context.Context) (written int, err error) {
	options := metav1.ListOptions{Limit: secretsPage}
	for {
		page, err := e.client.CoreV1().Secrets("").List(ctx, options)
		if err != nil {
			return written, fmt.Errorf("list Secrets: %w", err)
		}
		for i := range page.Items {
			secret := &page.Items[i]
			_, err := e.client.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
			// On a conflict, an API server has just written the Secret with the first key.
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return written, fmt.Errorf("rewrite Secret %s/%s: %w", secret.Namespace, secret.Name, err)
			}
			written++
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return written, nil
		}
	}
}
