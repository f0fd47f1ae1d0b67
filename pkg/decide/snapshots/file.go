package snapshots

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// ListPath is where a cluster lists its snapshots (docs/wire/planner.md#etcdsnapshot-objects). Clusters of older
// releases have nothing there.
const ListPath = "/apis/k3s.cattle.io/v1/etcdsnapshotfiles"

const (
	// maxName is the longest name of a file, in bytes: that of Linux. maxObjectName is that of objects and nodes, maxBucket that of a bucket.
	maxName       = 255
	maxObjectName = 253
	maxBucket     = 63
	// maxMessage and maxLocation are how much is kept of texts of a cluster, and maxAuthority the largest authority of a storage, in bytes.
	maxMessage   = 1024
	maxLocation  = 2048
	maxAuthority = 32 << 10
)

// quantity is a size that is read: parsing some others takes hours.
var quantity = regexp.MustCompile(`^[0-9]{1,19}(\.[0-9]{1,3})?([kMGTPE]|[KMGTPE]i|m)?$`)

// File is a snapshot as its cluster lists it.
type File struct {
	// Name is that of the object in the list.
	Name string
	// SnapshotName is the name of the file, NodeName the node that holds it or has put it into S3, Location its URI.
	SnapshotName, NodeName, Location string
	// Metadata is what was stored with the snapshot, as objects have it (docs/wire/planner.md#etcdsnapshot-objects):
	// base64 of JSON. It is empty when it is too large, or none.
	Metadata string
	// S3 is the storage that holds the file, nil when the node does. It names no credential.
	S3 *rkev1.ETCDSnapshotS3
	// Size is in bytes, CreatedAt in whole seconds, and nil when it is not known.
	Size      int64
	CreatedAt *metav1.Time
	// Successful is true for a snapshot that is complete. Message says why another one is not.
	Successful bool
	Message    string
}

// listed is an entry of the list, as far as it is used.
type listed struct {
	Metadata struct {
		Name              string
		DeletionTimestamp *string
	} `json:"metadata"`
	Spec struct {
		SnapshotName string          `json:"snapshotName"`
		NodeName     string          `json:"nodeName"`
		Location     string          `json:"location"`
		Metadata     json.RawMessage `json:"metadata"`
		S3           *storage        `json:"s3"`
	} `json:"spec"`
	Status struct {
		Size         json.RawMessage `json:"size"`
		CreationTime string          `json:"creationTime"`
		ReadyToUse   *bool           `json:"readyToUse"`
		Error        *struct {
			Message string `json:"message"`
		} `json:"error"`
	} `json:"status"`
}

type storage struct {
	Endpoint      string `json:"endpoint"`
	EndpointCA    string `json:"endpointCA"`
	SkipSSLVerify bool   `json:"skipSSLVerify"`
	Bucket        string `json:"bucket"`
	Region        string `json:"region"`
	Prefix        string `json:"prefix"`
}

// file is false for what cannot be one: its name gets into paths. So it is for what no ETCDSnapshot can hold.
func (l *listed) file() (File, bool) {
	name, node := l.Metadata.Name, l.Spec.NodeName
	if l.Metadata.DeletionTimestamp != nil || !isFileName(l.Spec.SnapshotName) || name == "" || clean(name, maxObjectName) != name || clean(node, maxObjectName) != node {
		return File{}, false
	}
	out := File{
		Name: name, SnapshotName: l.Spec.SnapshotName, NodeName: node, Location: clean(l.Spec.Location, maxLocation),
		Metadata: packed(l.Spec.Metadata), Size: sizeOf(l.Status.Size), CreatedAt: timeOf(l.Status.CreationTime),
		Successful: l.Status.Error == nil && l.Status.ReadyToUse != nil && *l.Status.ReadyToUse,
	}
	if l.Status.Error != nil {
		out.Message = clean(l.Status.Error.Message, maxMessage)
	}
	if s3 := l.Spec.S3; s3 != nil {
		if len(s3.EndpointCA) > maxAuthority || len(s3.Bucket) > maxBucket { // with a part of an authority nothing is verified
			return File{}, false
		}
		out.S3 = &rkev1.ETCDSnapshotS3{
			Endpoint: clean(s3.Endpoint, maxLocation), EndpointCA: s3.EndpointCA, SkipSSLVerify: s3.SkipSSLVerify,
			Bucket: clean(s3.Bucket, maxBucket), Region: clean(s3.Region, maxLocation), Folder: clean(s3.Prefix, maxLocation),
		}
	}
	return out, true
}

// packed makes one form of metadata, with the keys in order. None are better than a part of them.
func packed(raw json.RawMessage) string {
	var metadata map[string]string
	if len(raw) > maxMetadata || json.Unmarshal(raw, &metadata) != nil || len(metadata) == 0 {
		return ""
	}
	encoded, err := json.Marshal(metadata)
	if err != nil || base64.StdEncoding.EncodedLen(len(encoded)) > maxMetadata {
		return ""
	}
	return base64.StdEncoding.EncodeToString(encoded)
}

// sizeOf is 0 for what is no size.
func sizeOf(raw json.RawMessage) int64 {
	text := strings.Trim(string(raw), `"`)
	if !quantity.MatchString(text) {
		return 0
	}
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return max(0, size.Value())
}

// timeOf is nil for what is no time that an object keeps as it is.
func timeOf(text string) *metav1.Time {
	at, err := time.Parse(time.RFC3339, text)
	at = at.UTC().Truncate(time.Second)
	if err != nil || at.Unix() <= 0 || at.Year() > 9999 {
		return nil
	}
	return &metav1.Time{Time: at}
}

func isFileName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName && clean(name, maxName) == name && !strings.ContainsAny(name, `/\`)
}

// clean leaves the characters that can be shown, and at most limit bytes of them.
func clean(text string, limit int) string {
	if len(text) > 4*limit {
		text = text[:4*limit]
	}
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
