package ui

import (
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// maxEvents is how many Events of a cluster are shown.
	maxEvents = 200
	// maxEventPages limits how many Events of a namespace are read.
	maxEventPages = 20
)

// eventsBody lists Events, the newest first.
type eventsBody struct {
	Items []eventBody `json:"items"`
}

// eventBody is an Event.
type eventBody struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Object is Kind/name.
	Object string    `json:"object"`
	Count  int32     `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

func (u *ui) getEvents(w http.ResponseWriter, r *http.Request, c *caller) error {
	if _, err := u.cluster(r, c); err != nil {
		return err
	}
	about, err := u.objectsOf(r, c)
	if err != nil {
		return err
	}
	client, err := c.kubernetes()
	if err != nil {
		return err
	}
	body, options := eventsBody{Items: []eventBody{}}, metav1.ListOptions{Limit: pageSize}
	for range maxEventPages {
		page, err := client.CoreV1().Events(r.PathValue("namespace")).List(r.Context(), options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if event := &page.Items[i]; about[objectOf(event)] {
				body.Items = append(body.Items, describeEvent(event))
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortStableFunc(body.Items, func(a, b eventBody) int { return b.Last.Compare(a.Last) })
	body.Items = body.Items[:min(len(body.Items), maxEvents)]
	writeJSON(w, http.StatusOK, body)
	return nil
}

func objectOf(event *corev1.Event) string {
	return event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name
}

// objectsOf returns the objects whose Events belong to a cluster, as Kind/name. A caller who may not list Machines,
// or a management cluster without Cluster API, has the Events of the cluster itself.
func (u *ui) objectsOf(r *http.Request, c *caller) (map[string]bool, error) {
	name, out := r.PathValue("name"), map[string]bool{}
	for _, kind := range []string{"Cluster", "RKEControlPlane", "RKECluster"} {
		out[kind+"/"+name] = true
	}
	client, err := u.kinds.Client(c.config, clusterv1.GroupVersion)
	if err != nil {
		return nil, err
	}
	own := clusterv1.ClusterNameLabel + "=" + name
	machines, pools := &clusterv1.MachineList{}, &clusterv1.MachineDeploymentList{}
	for resource, into := range map[string]listObject{"machines": machines, "machinedeployments": pools} {
		err := list(r.Context(), client, r.PathValue("namespace"), resource,
			metav1.ListOptions{LabelSelector: own}, into)
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	for i := range machines.Items {
		spec := machines.Items[i].Spec
		out["Machine/"+machines.Items[i].Name] = true
		out[spec.InfrastructureRef.Kind+"/"+spec.InfrastructureRef.Name] = true
		out[spec.Bootstrap.ConfigRef.Kind+"/"+spec.Bootstrap.ConfigRef.Name] = true
	}
	for i := range pools.Items {
		out["MachineDeployment/"+pools.Items[i].Name] = true
	}
	return out, nil
}

// describeEvent reads the times of both APIs for Events.
func describeEvent(event *corev1.Event) eventBody {
	out := eventBody{Type: event.Type, Reason: event.Reason, Message: event.Message, Object: objectOf(event),
		Count: max(event.Count, 1), First: event.FirstTimestamp.Time, Last: event.LastTimestamp.Time}
	if series := event.Series; series != nil {
		out.Count, out.Last = max(series.Count, out.Count), series.LastObservedTime.Time
	}
	if out.First.IsZero() {
		out.First = event.EventTime.Time
	}
	if out.First.IsZero() {
		out.First = event.CreationTimestamp.Time
	}
	if out.Last.IsZero() {
		out.Last = out.First
	}
	return out
}
