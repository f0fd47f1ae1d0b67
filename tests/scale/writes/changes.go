package writes

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// storageEvents counts the changes that the API server's cache has received from etcd, by resource. A write that
// changes nothing causes none.
const storageEvents = "apiserver_storage_events_received_total"

// Changes returns the number of changes of each resource since the API server has started. It has no resource without a
// cache, such as Events.
func Changes(ctx context.Context, config *rest.Config) (map[string]int64, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return parse(string(text))
}

func parse(text string) (map[string]int64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	family := families[storageEvents]
	if family == nil {
		return nil, fmt.Errorf("the API server has no metric %s", storageEvents)
	}
	found := map[string]int64{}
	for _, metric := range family.GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		found[Resource(labels["group"], labels["resource"])] += int64(metric.GetCounter().GetValue())
	}
	return found, nil
}

// Since returns the difference of two counts.
func Since(before, after map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for resource, count := range after {
		out[resource] = count - before[resource]
	}
	return out
}
