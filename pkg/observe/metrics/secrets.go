package metrics

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// planReport is the part of a plan secret that metrics need. Nothing else of it is kept.
type planReport struct {
	// pending: the plan was delivered and not applied.
	pending           bool
	delivered, passed time.Time
}

func readPlan(secret *corev1.Secret) planReport {
	if secret.Type != rkev1.SecretTypeMachinePlan {
		return planReport{}
	}
	var out planReport
	out.delivered, _ = time.Parse(time.RFC3339, secret.Annotations[rkev1.PlanUpdatedTimeAnnotation])
	out.passed, _ = time.Parse(time.RFC3339, secret.Annotations[rkev1.PlanProbesPassedAnnotation])
	if out.delivered.IsZero() {
		return out // delivered by another manager: the start of the wait is unknown
	}
	// The planner reports an unreadable secret.
	state, _ := nodeplan.Parse(secret.Namespace+"/"+secret.Name, secret.Data)
	out.pending = state.PlanExists && !state.InSync
	return out
}

// kubeconfigKey holds a kubeconfig in the Secret of a cluster, by Cluster API's rules.
const kubeconfigKey = "value"

// kubeconfigEnd returns when the first client certificate in a kubeconfig expires, zero if it has none.
func kubeconfigEnd(secret *corev1.Secret) time.Time {
	config, err := clientcmd.Load(secret.Data[kubeconfigKey])
	if err != nil {
		return time.Time{}
	}
	var first time.Time
	for _, user := range config.AuthInfos {
		block, _ := pem.Decode(user.ClientCertificateData)
		if block == nil {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err == nil && (first.IsZero() || certificate.NotAfter.Before(first)) {
			first = certificate.NotAfter
		}
	}
	return first
}
