package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const (
	// surveyInterval is the time between surveys of a cluster.
	surveyInterval = 5 * time.Minute
	// nodesPage and nodesPages limit the nodes of a cluster that Drover counts.
	nodesPage, nodesPages = 500, 40
	// mixed is the architecture of a cluster whose nodes have several.
	mixed = "mixed"
)

// asMetadata requests the metadata of objects only.
const asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// Patterns of what a cluster may report. Other texts are left out, because a cluster is not trusted.
var (
	versionText = regexp.MustCompile(`^v?[0-9A-Za-z.+_-]{1,64}$`)
	archText    = regexp.MustCompile(`^[0-9a-z_]{1,20}$`)
)

// survey is what Drover found in an imported cluster.
type survey struct {
	nodes   int
	arch    string
	version mgmtv3.ClusterVersion
}

// surveys count the nodes of imported clusters, in the background. Other clusters have a Machine for each node. The
// zero value surveys none.
type surveys struct {
	downstream proxy.ClientGetter
	visits     *proxy.Visits
	// wake queues a cluster with a new survey.
	wake func(namespace, name string, after time.Duration)

	mu sync.Mutex
	// of holds the last survey of each cluster, nil before the first one.
	of map[types.NamespacedName]*survey
}

// follow returns the last survey of a connected cluster, nil if there is none yet. The first call starts the surveys.
func (s *surveys) follow(cluster types.NamespacedName) *survey {
	if s.visits == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.of[cluster]
	if !known {
		s.of[cluster] = nil
		s.visits.Wake(cluster)
	}
	return last
}

// forget ends the surveys of a cluster.
func (s *surveys) forget(cluster types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, cluster)
}

func (s *surveys) visit(ctx context.Context, cluster types.NamespacedName) (time.Duration, error) {
	if !s.follows(cluster) {
		return 0, nil
	}
	client, err := s.downstream.Client(ctx, cluster)
	if err != nil {
		return 0, fmt.Errorf("reach the cluster: %w", err)
	}
	found, err := look(ctx, client.CoreV1().RESTClient())
	if err != nil {
		return 0, err
	}
	if s.record(cluster, found) {
		s.wake(cluster.Namespace, cluster.Name, 0)
	}
	return surveyInterval, nil
}

func (s *surveys) follows(cluster types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.of[cluster]
	return known
}

// record remembers a survey, and reports whether it differs from the last one.
func (s *surveys) record(cluster types.NamespacedName, found *survey) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.of[cluster]
	if !known {
		return false
	}
	s.of[cluster] = found
	return last == nil || *last != *found
}

// look reads the version and the nodes of a cluster.
func look(ctx context.Context, api rest.Interface) (*survey, error) {
	answer, err := api.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the version: %w", err)
	}
	found := &survey{}
	if err := json.Unmarshal(answer, &found.version); err != nil {
		return nil, errors.New("read the version: the answer is no JSON object")
	}
	for _, text := range []*string{&found.version.GitVersion, &found.version.Major, &found.version.Minor} {
		if !versionText.MatchString(*text) {
			*text = ""
		}
	}
	return found, found.countNodes(ctx, api)
}

// countNodes reads the nodes page by page.
func (s *survey) countNodes(ctx context.Context, api rest.Interface) error {
	next := ""
	for range nodesPages {
		answer, err := api.Get().AbsPath("/api/v1/nodes").SetHeader("Accept", asMetadata).
			Param("limit", strconv.Itoa(nodesPage)).Param("continue", next).Do(ctx).Raw()
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		var page metav1.PartialObjectMetadataList
		if err := json.Unmarshal(answer, &page); err != nil {
			return errors.New("list nodes: the answer is no list")
		}
		for i := range page.Items {
			s.add(page.Items[i].Labels[corev1.LabelArchStable])
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
	return fmt.Errorf("list nodes: there are more than %d", nodesPage*nodesPages)
}

// add counts a node with an architecture.
func (s *survey) add(arch string) {
	s.nodes++
	switch {
	case !archText.MatchString(arch), arch == s.arch:
	case s.arch == "":
		s.arch = arch
	default:
		s.arch = mixed
	}
}
