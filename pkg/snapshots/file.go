package snapshots

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ListPath is where a cluster lists its snapshots (spec/02 §6.8). Clusters of older releases have nothing there.
const ListPath = "/apis/k3s.cattle.io/v1/etcdsnapshotfiles"

const (
	// maxName is the longest name of a file, in bytes: that of Linux.
	maxName = 255
	// maxMessage and maxLocation are how much is kept of texts of a cluster, in bytes.
	maxMessage  = 1024
	maxLocation = 2048
	// maxObjectName is the longest name of an object or a node, maxAuthority the largest authority of a storage, in bytes of PEM.
	maxObjectName = 253
	maxAuthority  = 32 << 10
)

// errList has no content of the list in it.
var errList = errors.New("the cluster's list of snapshots is not one of etcdsnapshotfiles.k3s.cattle.io")

// File is a snapshot as its cluster lists it.
type File struct {
	// Name is that of the object in the list.
	Name string
	// SnapshotName is the name of the file, NodeName the node that holds it or has put it into S3, Location its URI.
	SnapshotName, NodeName, Location string
	// Metadata is what was stored with the snapshot.
	Metadata map[string]string
	// S3 is the storage that holds the file, nil when the node does. It names no credential.
	S3 *rkev1.ETCDSnapshotS3
	// Size is in bytes, CreatedAt nil when it is not known.
	Size      int64
	CreatedAt *metav1.Time
	// Successful is true for a snapshot that is complete. Message says why another one is not.
	Successful bool
	Message    string
}

// listed is an object of the list, as far as it is used.
type listed struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SnapshotName string            `json:"snapshotName"`
		NodeName     string            `json:"nodeName"`
		Location     string            `json:"location"`
		Metadata     map[string]string `json:"metadata"`
		S3           *struct {
			Endpoint      string `json:"endpoint"`
			EndpointCA    string `json:"endpointCA"`
			SkipSSLVerify bool   `json:"skipSSLVerify"`
			Bucket        string `json:"bucket"`
			Region        string `json:"region"`
			Prefix        string `json:"prefix"`
		} `json:"s3"`
	} `json:"spec"`
	Status struct {
		Size         *resource.Quantity `json:"size"`
		CreationTime *metav1.Time       `json:"creationTime"`
		ReadyToUse   *bool              `json:"readyToUse"`
		Error        *struct {
			Message *string `json:"message"`
		} `json:"error"`
	} `json:"status"`
}

// Parse reads a list in JSON. complete is false when the cluster has more than it answered. Entries that name no file are left out.
func Parse(raw []byte) (files []File, complete bool, err error) {
	var list struct {
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, false, errList
	}
	for _, item := range list.Items {
		var entry listed
		if err := json.Unmarshal(item, &entry); err != nil {
			return nil, false, errList
		}
		if file, ok := entry.file(); ok {
			files = append(files, file)
		}
	}
	return files, list.Continue == "", nil
}

// file is false for what cannot be one: its name gets into paths.
func (l *listed) file() (File, bool) {
	if !isFileName(l.Spec.SnapshotName) || l.Name == "" || max(len(l.Name), len(l.Spec.NodeName)) > maxObjectName || l.DeletionTimestamp != nil {
		return File{}, false
	}
	out := File{
		Name: l.Name, SnapshotName: l.Spec.SnapshotName, NodeName: l.Spec.NodeName, Location: clean(l.Spec.Location, maxLocation),
		Metadata: l.Spec.Metadata, CreatedAt: l.Status.CreationTime,
	}
	if s3 := l.Spec.S3; s3 != nil {
		out.S3 = &rkev1.ETCDSnapshotS3{
			Endpoint: clean(s3.Endpoint, maxLocation), EndpointCA: s3.EndpointCA, SkipSSLVerify: s3.SkipSSLVerify,
			Bucket: clean(s3.Bucket, maxLocation), Region: clean(s3.Region, maxLocation), Folder: clean(s3.Prefix, maxLocation),
		}
		if len(s3.EndpointCA) > maxAuthority {
			return File{}, false // with a part of it nothing is verified
		}
	}
	if l.Status.Size != nil {
		out.Size = max(0, l.Status.Size.Value())
	}
	out.Successful = l.Status.Error == nil && l.Status.ReadyToUse != nil && *l.Status.ReadyToUse
	if l.Status.Error != nil && l.Status.Error.Message != nil {
		out.Message = clean(*l.Status.Error.Message, maxMessage)
	}
	return out, true
}

func isFileName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName && clean(name, maxName) == name && !strings.ContainsAny(name, `/\`)
}

// clean leaves the characters that can be shown, and at most limit bytes of them.
func clean(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
