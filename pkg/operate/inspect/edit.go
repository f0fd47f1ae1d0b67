package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/operate/edit"
	"github.com/drover-io/drover/pkg/operate/preview"
	"github.com/drover-io/drover/pkg/releases"
)

// Releases are the facts about Kubernetes versions that the Reader uses.
func (r *Reader) Releases() releases.Table { return r.opts.Releases }

// PreviewChange returns the effect of a change on machines.
func (r *Reader) PreviewChange(change edit.Change) (preview.Report, error) {
	report, err := r.PreviewEdit(change.After)
	report.Warnings = append(report.Warnings, change.Warnings...)
	return report, err
}

// Belongings reads what the deletion of a cluster concerns. What the user may not read is a note.
func (r *Reader) Belongings(ctx context.Context, name string) (edit.Belongings, error) {
	b := edit.Belongings{}
	var err error
	if b.Cluster, err = r.Cluster(name); err != nil {
		return b, err
	}
	note := func(what string, err error) error {
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return err
		}
		b.Notes = append(b.Notes, what+" are unknown: "+err.Error())
		return nil
	}
	machines, err := r.clients.CAPI.Machine().List(r.namespace,
		metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabel + "=" + name})
	if err != nil {
		err = note("machines", err)
	} else {
		for i := range machines.Items {
			b.Machines = append(b.Machines, &machines.Items[i])
		}
	}
	if err != nil {
		return b, fmt.Errorf("list machines: %w", err)
	}
	snapshots, err := r.Snapshots(ctx, name)
	if err != nil {
		return b, note("snapshots", err)
	}
	for i := range snapshots.Snapshots {
		if snapshots.Snapshots[i].Storage == storageS3 {
			b.Remote++
		} else {
			b.Local++
		}
	}
	return b, nil
}

// DriverSchema reads the schema of a driver's machine configs. It is nil if there is no such driver.
func (r *Reader) DriverSchema(driver string) (*mgmtv3.DynamicSchemaSpec, error) {
	found, err := r.clients.Management.DynamicSchema().Get(driverschema.ConfigSchema(driver), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the schema of driver %s: %w", driver, err)
	}
	return &found.Spec, nil
}

// Drivers lists the names of the active node drivers.
func (r *Reader) Drivers() ([]string, error) {
	list, err := r.clients.Management.NodeDriver().List(metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list node drivers: %w", err)
	}
	var out []string
	for i := range list.Items {
		if list.Items[i].Spec.Active {
			out = append(out, driverschema.DisplayName(&list.Items[i]))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Registration is what makes a host a machine of a cluster. Its commands contain a secret token.
type Registration struct {
	// Command is for hosts that trust the server's certificate. It is empty until the command exists. Insecure is for
	// other hosts; it is empty if the server does not know its own install script.
	Command, Insecure string
	// ExpiresAt is when the token is replaced, zero for never.
	ExpiresAt time.Time
}

// Registration reads the commands that register hosts.
func (r *Reader) Registration(name string) (Registration, error) {
	cluster, err := r.Cluster(name)
	if err != nil || cluster.Status.ClusterName == "" {
		return Registration{}, err
	}
	secret, err := r.clients.Core.Secret().Get(cluster.Status.ClusterName,
		naming.RegistrationTokenSecret(mgmtv3.DefaultRegistrationTokenName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Registration{}, nil
	}
	if err != nil {
		return Registration{}, fmt.Errorf("read the registration command of cluster %s: %w", name, err)
	}
	return Registration{
		Command:   string(secret.Data[registration.KeyNodeCommand]),
		Insecure:  string(secret.Data[registration.KeyInsecureNodeCommand]),
		ExpiresAt: registration.Read(secret).ExpiresAt,
	}, nil
}

// RegistrationCommand returns the command that makes a host a machine of a cluster. It contains a secret token. It is
// empty until the command exists.
func (r *Reader) RegistrationCommand(name string) (string, error) {
	found, err := r.Registration(name)
	return found.Command, err
}
